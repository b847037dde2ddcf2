#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/error.h"

namespace tessera {

/// The statement throws Error with the exit code and a sentence that contains the text.
#define EXPECT_TESSERA_ERROR(statement, exit_code, text)                \
  try {                                                                 \
    (void)(statement);                                                  \
    ADD_FAILURE() << #statement << " throws nothing";                   \
  } catch (const ::tessera::Error& error) {                             \
    EXPECT_EQ(error.code(), exit_code) << error.what();                 \
    EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr(text)); \
  }

#define EXPECT_CONFIG_ERROR(statement, text) EXPECT_TESSERA_ERROR(statement, ::tessera::ExitCode::kConfig, text)

}  // namespace tessera
