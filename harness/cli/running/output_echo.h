// What a command of the user's own prints, shown as it comes: a thread follows the two files of the record and copies them. If the
// terminal is stopped, the thread waits, and neither the command nor its supervision does.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace harness::cli {

class OutputEcho {
 public:
  // Follows command.out and command.err in `folder`, which need not be there yet. Copies them to these descriptors.
  OutputEcho(std::string folder, int out, int err);
  // Copies what is left. Ends a line that the command left open.
  ~OutputEcho();
  OutputEcho(const OutputEcho&) = delete;
  OutputEcho& operator=(const OutputEcho&) = delete;

 private:
  struct Stream {
    std::string path;
    int to;
    int from = -1;
    bool lost = false;  // nobody reads it any more
    bool line_is_open = false;
  };

  void follow();
  static void copy(Stream& stream);

  Stream out_;
  Stream err_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace harness::cli
