// Cuts a stream of bytes into lines of bounded length, whatever pieces the bytes arrive in. Holds at most one line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace harness {

class LineReader {
 public:
  enum class Piece {
    line,
    too_long,
    unfinished
  };  // unfinished: the stream ended without a newline
  // `text` is the line without its newline; of a line that is too long, its first bytes.
  using OnLine = std::function<void(Piece piece, std::string_view text)>;

  explicit LineReader(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  void feed(std::string_view bytes, const OnLine& on_line);
  void finish(const OnLine& on_line);  // the stream has ended

 private:
  void append(std::string_view bytes);

  std::size_t max_bytes_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace harness
