#!/usr/bin/env python3
"""Trains the eight models in digits.so with eight learning rates, through ctypes alone.

    hftac samples/digits.hdl -B 8 -o digits.so
    python3 samples/train_digits.py digits.so samples/data/digits-train.safetensors samples/data/digits-test.safetensors

libhftac.so is looked for at $HFTAC_LIBRARY, then in build/lib beside this folder, then where the system looks."""
import os
import sys
from ctypes import CDLL, POINTER, Structure, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_uint64, c_void_p

RATES = [1e-4, 3e-4, 1e-3, 2e-3, 3e-3, 5e-3, 1e-2, 3e-2]
NO_METRIC, FOR_EVALUATION = -1, 1


class TrainOptions(Structure):
    _fields_ = [("shuffle", c_int), ("seed", c_uint64), ("callback", c_void_p), ("context", c_void_p)]


class DataOptions(Structure):
    _fields_ = [("purpose", c_int)]


class ModelStatus(Structure):
    _fields_ = [("state", c_int), ("text", c_char_p), ("step", c_int64), ("input", c_char_p), ("sample", c_int64),
                ("value", c_int64)]


class Description(Structure):
    """The beginning of hftac_description, as far as it is read here."""
    _fields_ = [("path", c_char_p), ("name", c_char_p), ("version", c_char_p), ("march", c_char_p), ("features", c_char_p),
                ("models", c_int32), ("capacity", c_int32), ("threads", c_int32), ("batch", c_int64), ("epochs", c_int64)]


def load_library():
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "lib", "libhftac.so")
    path = os.environ.get("HFTAC_LIBRARY") or (beside if os.path.exists(beside) else "libhftac.so")
    library = CDLL(path)
    library.hftac_last_error.restype = c_char_p
    library.hftac_describe.restype = POINTER(Description)
    library.hftac_close.restype = library.hftac_data_close.restype = None
    return library


LIB = load_library()


def call(function, *arguments):
    """Every call that can fail returns a status; its sentence becomes an exception."""
    if getattr(LIB, function)(*arguments) != 0:
        raise RuntimeError(LIB.hftac_last_error().decode())


def find(array, kind, name):
    handle = c_int32()
    call("hftac_find_" + kind, array, name.encode(), byref(handle))
    return handle


def read(function, array, metric, model):
    value = c_double()
    call(function, array, metric, c_int32(model), byref(value))
    return value.value


def open_data(array, path, purpose=0):
    data = c_void_p()
    call("hftac_data_open", array, path.encode(), byref(DataOptions(purpose)), byref(data))
    return data


def main(model_path, train_path, test_path):
    array = c_void_p()
    call("hftac_open", model_path.encode(), None, byref(array))
    about = LIB.hftac_describe(array).contents
    rate = find(array, "hyper", "lr")
    for b in range(about.models):
        call("hftac_set_hyper", array, rate, c_int32(b), c_double(RATES[b % 8]))

    train, test = open_data(array, train_path), open_data(array, test_path, FOR_EVALUATION)
    for epoch in range(about.epochs):
        call("hftac_train_epoch", array, train, byref(TrainOptions(seed=1)), None)
        if epoch + 1 < about.epochs:  # the last epoch's mean loss is printed below
            call("hftac_epoch_end", array, c_int32(NO_METRIC))
    call("hftac_evaluate", array, test, None, None)

    loss, accuracy = find(array, "metric", "loss"), find(array, "metric", "acc")
    print(f"{'model':>5} {'lr':>10} {'train loss':>10} {'test loss':>10} {'test acc':>10}  state")
    for b in range(about.models):
        status = ModelStatus()
        call("hftac_read_model", array, c_int32(b), byref(status))
        print(f"{b:5} {RATES[b % 8]:10g} {read('hftac_read_epoch_metric', array, loss, b):10.4f} "
              f"{read('hftac_read_metric', array, loss, b):10.4f} {read('hftac_read_metric', array, accuracy, b):10.4f}  "
              f"{status.text.decode()}")
    for data in (test, train):
        LIB.hftac_data_close(data)
    LIB.hftac_close(array)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: train_digits.py digits.so train.safetensors test.safetensors")
    try:
        main(*sys.argv[1:])
    except (RuntimeError, OSError) as error:
        sys.exit(f"train_digits.py: {error}")
