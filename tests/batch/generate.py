"""Random programs that put samples together, for partial.py.  Program number S is the same for ever."""
import random


class Program:
    def __init__(self, seed):
        self.seed = seed

    def text(self):
        return ""
