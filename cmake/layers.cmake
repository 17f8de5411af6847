# One object library per layer. A layer sees only the headers of the layers it
# may use: each gets an include directory of its own, with links to just those.
#
#   hf_layer(item USES base SOURCES number.c …)

function(hf_include_view name)
  set(view ${CMAKE_BINARY_DIR}/view/${name})
  file(MAKE_DIRECTORY ${view})
  foreach(layer ${ARGN})
    file(CREATE_LINK ${CMAKE_SOURCE_DIR}/src/${layer} ${view}/${layer} SYMBOLIC)
  endforeach()
endfunction()

function(hf_layer layer)
  cmake_parse_arguments(ARG "" "" "USES;SOURCES;LINK" ${ARGN})
  hf_include_view(${layer} ${layer} ${ARG_USES})
  list(TRANSFORM ARG_SOURCES PREPEND ${CMAKE_SOURCE_DIR}/src/${layer}/)
  add_library(hf_${layer} OBJECT ${ARG_SOURCES})
  target_include_directories(hf_${layer} PRIVATE ${CMAKE_BINARY_DIR}/view/${layer}
                                                 ${CMAKE_SOURCE_DIR}/include)
  target_link_libraries(hf_${layer} PRIVATE ${ARG_LINK})
endfunction()
