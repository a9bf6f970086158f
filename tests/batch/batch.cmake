# A last, partial batch against the same program compiled for its size.
# More: batch/partial.py --help.
add_executable(batch_run batch/batch_run.c)
target_link_libraries(batch_run hftac_flags hftac_runtime_static m)
add_test(NAME partial_batch COMMAND ${here}/batch/partial.sh ${bin} ${CMAKE_SOURCE_DIR})
set_tests_properties(partial_batch PROPERTIES LABELS e2e SKIP_RETURN_CODE 77 TIMEOUT 600)
