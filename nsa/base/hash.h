// XXH3-128 of bytes as 32 hex digits: identity of tensors, batches, cases, files. Not cryptographic.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace nsa {

[[nodiscard]] std::string hash_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string hash_hex(std::string_view text);

// The same hash of bytes that come piece by piece.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(const Hasher&) = delete;
  Hasher& operator=(const Hasher&) = delete;

  void update(std::string_view bytes);
  [[nodiscard]] std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The hash of a file's content. Throws: Error naming the file if it cannot be read.
[[nodiscard]] std::string hash_file(const std::string& path);

}  // namespace nsa
