# How runs end: signals, full disks, failing calls, killed processes.  FAULTS_MOMENTS=1000 for more
# moments.
add_library(fault_shim SHARED faults/shim.c)
target_compile_options(fault_shim PRIVATE -fno-builtin -Wall -Wextra)
target_compile_definitions(fault_shim PRIVATE _GNU_SOURCE)
target_link_libraries(fault_shim PRIVATE ${CMAKE_DL_LIBS})
if(NOT HFTAC_SANITIZE)
  add_test(NAME faults COMMAND python3 ${here}/faults/faults.py ${bin} ${CMAKE_SOURCE_DIR}
    $<TARGET_FILE:fault_shim>)
  set_tests_properties(faults PROPERTIES LABELS e2e)
endif()
