// The message of the nsa::Error that `action` throws, or "no error".
#pragma once

#include <string>

#include "nsa/base/error.h"

template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const nsa::Error& error) {
    return error.what();
  }
  return "no error";
}
