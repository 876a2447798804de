// Text made small (Zstandard, with a checksum), for what is kept long and read seldom: events of cases, descriptions of cases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace harness {

// `base`: a text that has much in common with it, and without which it cannot be unpacked.
[[nodiscard]] std::string pack(std::string_view text, std::string_view base = {});

// Throws: nsa::Error: not packed text, damaged, packed after another base, or longer than `max_bytes`.
[[nodiscard]] std::string unpack(std::string_view packed,
                                 std::size_t max_bytes,
                                 std::string_view base = {});

// Writes `to` whole, through to the disk, or throws nsa::Error and leaves none.
void pack_file(const std::string& from, const std::string& to);

// Hands the content on piece by piece. Throws: nsa::Error naming the file, as unpack() does, or what `on_piece` throws.
void unpack_file(const std::string& path,
                 std::uint64_t max_bytes,
                 const std::function<void(std::string_view)>& on_piece);

}  // namespace harness
