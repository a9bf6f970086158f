# Random programs and damaged files: a short part that is the same every time.  More:
# fuzz/random_programs.py --help.
foreach(name run_fused against_ref)
  add_executable(fuzz_${name} fuzz/${name}.c fuzz/drive.c)
endforeach()
target_link_libraries(fuzz_run_fused hftac_flags hftac_runtime_static m)
target_sources(fuzz_against_ref PRIVATE unit/ref.c)
target_link_libraries(fuzz_against_ref hftac_ir hftac_runtime_static m)
add_test(NAME fuzz COMMAND ${here}/fuzz/fuzz.sh ${bin} ${CMAKE_SOURCE_DIR})
set_tests_properties(fuzz PROPERTIES LABELS fuzz SKIP_RETURN_CODE 77 TIMEOUT 600)
