#include "harness/evidence/line_reader.h"

namespace harness {

void LineReader::append(std::string_view bytes) {
  constexpr std::size_t kKept = 256;  // of a line that is too long: enough to tell what it was
  if (!too_long_ && line_.size() + bytes.size() > max_bytes_) {
    line_.append(bytes.substr(0, kKept));
    line_.resize(line_.size() < kKept ? line_.size() : kKept);
    line_.shrink_to_fit();
    too_long_ = true;
  } else if (!too_long_) {
    line_.append(bytes);
  }
}

void LineReader::feed(std::string_view bytes, const OnLine& on_line) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    append(bytes.substr(0, end));
    if (end == std::string_view::npos) return;
    on_line(too_long_ ? Piece::too_long : Piece::line, line_);
    line_.clear();
    too_long_ = false;
    bytes.remove_prefix(end + 1);
  }
}

void LineReader::finish(const OnLine& on_line) {
  if (line_.empty() && !too_long_) return;
  on_line(too_long_ ? Piece::too_long : Piece::unfinished, line_);
  line_.clear();
  too_long_ = false;
}

}  // namespace harness
