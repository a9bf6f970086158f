# The runtime's unit test and the model.so files that it opens, written by hand in C: no compiler of
# ours is needed.
add_executable(restamp ${here}/unit/restamp_main.c ${here}/unit/restamp.c)
target_link_libraries(restamp hftac_flags)

# fake_model(NAME [DEFINE definition..] [LINK option..]): a model.so that differs by what is given.
function(fake_model name)
  cmake_parse_arguments(F "" "" "DEFINE;LINK" ${ARGN})
  add_library(${name} MODULE ${here}/unit/fake_model.c)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE ${F_DEFINE})
  target_compile_options(${name} PRIVATE -ffreestanding -fno-stack-protector -fno-toplevel-reorder
    -O1)
  target_link_options(${name} PRIVATE -nostdlib ${F_LINK})
  set_target_properties(${name} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY
    ${CMAKE_CURRENT_BINARY_DIR})
  add_custom_command(TARGET ${name} POST_BUILD COMMAND restamp $<TARGET_FILE:${name}>)
endfunction()
fake_model(fake_model)
fake_model(fake_model_cpu DEFINE "FAKE_FEATURES=\"sse2 warp9 flux\"")
fake_model(fake_model_version DEFINE FAKE_MAJOR=9)
fake_model(fake_model_other DEFINE "FAKE_NAME=\"Other\"")

# Other linkers' output works; what needs other files, or wants to run when it is loaded, is
# refused.  Pairs of a file and a word of its refusal, or "opens".
set(other_models)
foreach(linker gold lld)
  find_program(FAKE_LINKER_${linker} ld.${linker})
  if(FAKE_LINKER_${linker})
    fake_model(fake_model_${linker} LINK -fuse-ld=${linker})
    list(APPEND other_models $<TARGET_FILE:fake_model_${linker}> opens)
  else()
    message(STATUS "ld.${linker} not found: the loader is not tested on its output")
  endif()
endforeach()
fake_model(fake_model_needs LINK -Wl,--no-as-needed -lm)
fake_model(fake_model_import DEFINE FAKE_IMPORT)
fake_model(fake_model_runs DEFINE FAKE_CONSTRUCTOR)
fake_model(fake_model_command DEFINE "FAKE_NAME=\"a\\033c\"")
list(APPEND other_models $<TARGET_FILE:fake_model_needs> libraries $<TARGET_FILE:fake_model_import>
  symbols
  $<TARGET_FILE:fake_model_runs> run $<TARGET_FILE:fake_model_command> terminal)

set(runtime_tests ${here}/unit/test_runtime.c ${here}/unit/test_runtime_files.c
  ${here}/unit/test_runtime_data.c
  ${here}/unit/test_runtime_faults.c ${here}/unit/test_runtime_door.c
  ${here}/unit/test_runtime_headers.c
  ${here}/unit/test_runtime_loader.c
  ${here}/unit/test_runtime_sets.c ${here}/unit/restamp.c)
add_executable(test_runtime ${runtime_tests})
target_link_libraries(test_runtime hftac_runtime_static hftac_flags)
add_test(NAME unit_runtime COMMAND test_runtime $<TARGET_FILE:fake_model>
  $<TARGET_FILE:fake_model_cpu>
  $<TARGET_FILE:fake_model_version> $<TARGET_FILE:fake_model_other> ${other_models})
set_tests_properties(unit_runtime PROPERTIES LABELS unit)

# The same on a device whose memory the library cannot touch.
add_executable(test_runtime_apart ${runtime_tests} ${here}/unit/apart_device.c)
target_link_libraries(test_runtime_apart hftac_runtime_static hftac_flags)
add_test(NAME unit_runtime_apart COMMAND test_runtime_apart $<TARGET_FILE:fake_model>
  $<TARGET_FILE:fake_model_cpu>
  $<TARGET_FILE:fake_model_version> $<TARGET_FILE:fake_model_other> ${other_models})
set_tests_properties(unit_runtime_apart PROPERTIES LABELS unit)

add_executable(test_device ${here}/unit/test_device.c ${here}/unit/apart_device.c)
target_link_libraries(test_device hftac_runtime_static hftac_flags)
add_test(NAME unit_device COMMAND test_device $<TARGET_FILE:fake_model>)
set_tests_properties(unit_device PROPERTIES LABELS unit)
