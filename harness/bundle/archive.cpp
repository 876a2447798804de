#include "harness/bundle/archive.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <set>

#include "harness/evidence/packed.h"
#include "nsa/base/error.h"
#include "nsa/base/strict_json.h"

namespace harness {
namespace {

constexpr std::size_t kBlock = 512;
constexpr char kRegular = '0';

struct Span {  // of a header
  std::size_t at;
  std::size_t size;
};
constexpr Span kName = {0, 100};
constexpr Span kMode = {100, 8};
constexpr Span kOwner = {108, 8};
constexpr Span kGroup = {116, 8};
constexpr Span kSize = {124, 12};
constexpr Span kTime = {136, 12};
constexpr Span kChecksum = {148, 8};
constexpr std::size_t kType = 156;
constexpr Span kLink = {157, 100};
constexpr Span kMagic = {257, 8};
constexpr Span kPrefix = {345, 155};
constexpr std::string_view kUstar = {"ustar\00000", 8};

std::size_t padded(std::size_t bytes) {
  return (bytes + kBlock - 1) / kBlock * kBlock;
}

void put_octal(std::string& header, Span field, std::uint64_t value) {
  std::array<char, 32> digits{};
  const int width = static_cast<int>(field.size) - 1;
  std::snprintf(
      digits.data(), digits.size(), "%0*llo", width, static_cast<unsigned long long>(value));
  header.replace(field.at, field.size - 1, digits.data(), field.size - 1);
}

// The sum of all bytes, those of the sum itself as blanks.
std::uint64_t checksum_of(std::string_view header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.at && i < kChecksum.at + kChecksum.size;
    sum += own ? std::uint64_t{' '} : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

std::string header_of(const Member& member) {
  constexpr std::uint64_t kReadable = 0644;
  std::string header(kBlock, '\0');
  header.replace(kName.at, member.name.size(), member.name);
  put_octal(header, kMode, kReadable);
  put_octal(header, kOwner, 0);
  put_octal(header, kGroup, 0);
  put_octal(header, kSize, member.content.size());
  put_octal(header, kTime, 0);
  header[kType] = kRegular;
  header.replace(kMagic.at, kMagic.size, kUstar);
  // Six digits, NUL, blank: as every tar writes it.
  put_octal(header, {kChecksum.at, kChecksum.size - 1}, checksum_of(header));
  header[kChecksum.at + kChecksum.size - 1] = ' ';
  return header;
}

std::string_view field_of(std::string_view header, Span field) {
  const std::string_view whole = header.substr(field.at, field.size);
  return whole.substr(0, whole.find('\0'));
}

// Digits alone, as header_of() writes them; nothing else is a number here.
std::optional<std::uint64_t> octal_of(std::string_view digits) {
  if (digits.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(digit - '0');  // eleven digits: below 2^33
  }
  return value;
}

bool is_inside(std::string_view name) {
  if (name.empty()) return false;
  const bool letters = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '/';
  });
  if (!letters) return false;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    begin = end + 1;
  }
  return true;
}

class ArchiveReader {
 public:
  ArchiveReader(std::string_view bytes, const std::string& where) : left_(bytes), where_(where) {}

  [[nodiscard]] bool at_end() {
    if (left_.find_first_not_of('\0') != std::string_view::npos) return false;
    if (left_.size() < 2 * kBlock) fail("ends too early");
    return true;
  }

  [[nodiscard]] Member next() {
    const std::string_view header = take(kBlock);
    const auto sum = octal_of(field_of(header, kChecksum));
    if (!sum || *sum != checksum_of(header)) fail("damaged: a header is not what its sum says");
    if (header.substr(kMagic.at, kMagic.size) != kUstar) fail("is no ustar archive");
    const std::string_view name = field_of(header, kName);
    if (!is_inside(name) || !field_of(header, kPrefix).empty()) {
      fail("found a member of the name \"" + nsa::shortened(name) +
           "\", wanted one inside of the bundle");
    }
    if (header[kType] != kRegular || !field_of(header, kLink).empty()) {
      fail("found " + std::string(name) + " as a link, a folder or a device, wanted a file");
    }
    const auto size = octal_of(field_of(header, kSize));
    if (!size || *size > left_.size()) fail(std::string(name) + " is longer than the file");
    const std::string_view content = take(padded(static_cast<std::size_t>(*size)));
    return {std::string(name), std::string(content.substr(0, static_cast<std::size_t>(*size)))};
  }

  [[noreturn]] void fail(const std::string& text) const { throw nsa::Error(where_ + ": " + text); }

 private:
  std::string_view take(std::size_t bytes) {
    if (left_.size() < bytes) fail("ends too early");
    const std::string_view taken = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return taken;
  }

  std::string_view left_;
  const std::string& where_;
};

}  // namespace

std::string write_archive(std::span<const Member> members) {
  std::string archive;
  for (const Member& member : members) {
    if (!is_inside(member.name) || member.name.size() > kName.size) {
      throw nsa::Error("a member of an archive: found the name \"" + member.name + "\"");
    }
    archive += header_of(member);
    archive += member.content;
    archive.resize(padded(archive.size()), '\0');
  }
  archive.append(2 * kBlock, '\0');
  return pack(archive);
}

std::vector<Member> read_archive(std::string_view packed,
                                 const ArchiveLimits& limits,
                                 const std::string& where) {
  std::string archive;
  try {
    archive = unpack(packed, limits.bytes);
  } catch (const nsa::Error& error) {
    throw nsa::Error(where + ": " + error.what());
  }
  return read_tar(archive, limits.members, where);
}

std::vector<Member> read_tar(std::string_view archive,
                             std::size_t most_members,
                             const std::string& where) {
  ArchiveReader reader(archive, where);
  std::vector<Member> members;
  std::set<std::string> names;
  while (!reader.at_end()) {
    if (members.size() == most_members) {
      reader.fail("found more than " + std::to_string(most_members) + " members");
    }
    members.push_back(reader.next());
    if (!names.insert(members.back().name).second) {
      reader.fail("found " + members.back().name + " twice, wanted it once");
    }
  }
  return members;
}

}  // namespace harness
