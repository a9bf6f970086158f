# The runtime's unit test and the model.so files that it opens, written by hand in C: no compiler of ours is needed.
function(fake_model name)
  add_library(${name} MODULE ${here}/unit/fake_model.c)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE ${ARGN})
  target_compile_options(${name} PRIVATE -ffreestanding -fno-stack-protector -O1)
  target_link_options(${name} PRIVATE -nostdlib)
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
fake_model(fake_model)
fake_model(fake_model_cpu "FAKE_FEATURES=\"sse2 warp9 flux\"")
fake_model(fake_model_version FAKE_MAJOR=9)

set(runtime_tests ${here}/unit/test_runtime.c ${here}/unit/test_runtime_files.c ${here}/unit/test_runtime_data.c
  ${here}/unit/test_runtime_faults.c)
add_executable(test_runtime ${runtime_tests})
target_link_libraries(test_runtime hftac_runtime_static hftac_flags)
add_test(NAME unit_runtime COMMAND test_runtime $<TARGET_FILE:fake_model> $<TARGET_FILE:fake_model_cpu>
  $<TARGET_FILE:fake_model_version>)
set_tests_properties(unit_runtime PROPERTIES LABELS unit)
