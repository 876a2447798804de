#include "nsa/base/hash.h"

#include <memory>
#include <xxhash.h>

#include "nsa/base/file.h"

namespace nsa {
namespace {

std::string hex_of(const XXH128_hash_t& hash) {
  XXH128_canonical_t canonical = {};  // big-endian: the same digits on every machine
  XXH128_canonicalFromHash(&canonical, hash);
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * sizeof(canonical.digest));
  for (const unsigned char byte : canonical.digest) {
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 15U];
  }
  return text;
}

}  // namespace

std::string hash_hex(std::span<const std::byte> bytes) {
  return hex_of(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string hash_hex(std::string_view text) {
  return hash_hex(std::as_bytes(std::span(text.data(), text.size())));
}

struct Hasher::State {
  XXH3_state_t xxh3;
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  XXH3_128bits_reset(&state_->xxh3);
}

Hasher::~Hasher() = default;

void Hasher::update(std::string_view bytes) {
  XXH3_128bits_update(&state_->xxh3, bytes.data(), bytes.size());
}

std::string Hasher::hex() const {
  return hex_of(XXH3_128bits_digest(&state_->xxh3));
}

std::string hash_file(const std::string& path) {
  Hasher hasher;
  read_pieces(path, [&](std::string_view piece) { hasher.update(piece); });
  return hasher.hex();
}

}  // namespace nsa
