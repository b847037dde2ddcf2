# What `cmake --install` puts where, and CPack into tessera_VERSION_amd64.deb and tessera-VERSION-linux-x86_64.tar.gz:
# scripts/package.sh makes both. Nothing is installed of a build with sanitizers or emulated GPUs.
if(NOT TARGET trainer OR TESSERA_SANITIZE OR TESSERA_CUDA_BUILD STREQUAL EMULATED)
  return()
endif()
include(GNUInstallDirs)
find_package(Python3 COMPONENTS Interpreter REQUIRED)
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(data ${CMAKE_INSTALL_DATADIR})
set(docs ${CMAKE_INSTALL_DOCDIR})

# Man page and completions say what `trainer VERB --help` says.
set(cli ${CMAKE_BINARY_DIR}/cli)
set(cli_files ${cli}/trainer.1.gz ${cli}/trainer ${cli}/_trainer)
add_custom_command(OUTPUT ${cli_files}
  COMMAND Python3::Interpreter ${CMAKE_SOURCE_DIR}/scripts/cli_files.py $<TARGET_FILE:trainer> ${CMAKE_SOURCE_DIR}/docs/cli.md ${cli}
  DEPENDS trainer ${CMAKE_SOURCE_DIR}/scripts/cli_files.py ${CMAKE_SOURCE_DIR}/docs/cli.md VERBATIM)
add_custom_target(installed ALL DEPENDS ${cli_files})

# Folders that others can enter whatever the umask is: CMake gives these permissions to the last of a path alone.
foreach(folder ${CMAKE_INSTALL_BINDIR} ${data} ${data}/tessera ${data}/doc ${data}/man ${data}/man/man1 ${data}/zsh
    ${data}/zsh/vendor-completions ${data}/bash-completion ${data}/bash-completion/completions)
  install(DIRECTORY DESTINATION ${folder})
endforeach()
install(TARGETS trainer RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(backend tessera_cuda tessera_nccl)
  if(TARGET ${backend})
    install(DIRECTORY DESTINATION lib)
    install(DIRECTORY DESTINATION lib/tessera)
    install(TARGETS ${backend} LIBRARY DESTINATION lib/tessera)  # where the program looks: lib/core/shared_object.h
    add_dependencies(installed ${backend})
  endif()
endforeach()
install(FILES ${cli}/trainer.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${cli}/trainer DESTINATION ${data}/bash-completion/completions)
install(FILES ${cli}/_trainer DESTINATION ${data}/zsh/vendor-completions)
install(DIRECTORY configs/ DESTINATION ${data}/tessera/examples)
if(EXISTS ${CMAKE_SOURCE_DIR}/scripts/slurm)
  install(DIRECTORY scripts/slurm DESTINATION ${data}/tessera)
endif()
install(FILES README.md DESTINATION ${docs})
install(DIRECTORY docs/ DESTINATION ${docs} FILES_MATCHING PATTERN *.md PATTERN gpu_results EXCLUDE)
# The targets above are what is installed; a package doesn't need the tests to be built.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)

set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME tessera)
set(CPACK_PACKAGE_VENDOR "Tessera developers")
set(CPACK_PACKAGE_CONTACT "Tessera developers <developers@tessera.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "distributed trainer of Keras-style models as one native program")
set(CPACK_PACKAGE_DESCRIPTION "A YAML file describes a model, a device mesh and layout rules; every MPI rank owns a GPU or a share\n\
of the CPU. CUDA, cuBLASLt and NCCL are opened at run time where a GPU is asked for.")
set(CPACK_PACKAGE_FILE_NAME tessera-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS ${CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS})
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS libnccl2)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(TESSERA_TRAINER ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/trainer)
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_BINARY_DIR}/CPackDependencies.cmake)
configure_file(${CMAKE_SOURCE_DIR}/cmake/CPackDependencies.cmake.in ${CPACK_PROJECT_CONFIG_FILE} @ONLY)
include(CPack)
