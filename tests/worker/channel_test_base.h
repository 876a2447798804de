// Tests of what is written to the controller: a channel of their own, whose rows they read back, and a small model to watch.
#pragma once

#include <fstream>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "harness/evidence/event.h"
#include "harness/worker/channel.h"
#include "tests/worker/small_model.h"

namespace tests {

class ChannelTest : public ::testing::Test {
 protected:
  ChannelTest() : fd_(memfd_create("events", MFD_CLOEXEC)), channel_(fd_, 0, 0) {}
  ~ChannelTest() override { close(fd_); }

  template <typename Row>
  std::vector<Row> written() {
    std::vector<Row> rows;
    std::ifstream file("/proc/self/fd/" + std::to_string(fd_));
    for (std::string line; std::getline(file, line);) {
      const auto event = nlohmann::json::parse(line);
      if (event.at("kind") == Row::kKind) rows.push_back(event.at("body").get<Row>());
    }
    return rows;
  }

  int fd_;
  harness::Channel channel_;
};

}  // namespace tests
