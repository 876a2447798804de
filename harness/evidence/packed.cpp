#include "harness/evidence/packed.h"

#include <memory>
#include <utility>
#include <vector>
#include <zstd.h>

#include "nsa/base/error.h"
#include "nsa/base/file.h"

namespace harness {
namespace {

// JSON lines shrink to a tenth at level 3, and hardly more at the levels that take ten times as long.
constexpr int kLevel = 3;

using Packer = std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)>;

// `where`: whose bytes they are, for people.
std::size_t checked(std::size_t result, const std::string& where = "packed text") {
  if (ZSTD_isError(result) != 0U) {
    throw nsa::Error(where + ": damaged: " + ZSTD_getErrorName(result));
  }
  return result;
}

Packer new_packer() {
  Packer packer(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  if (!packer) throw nsa::Error("out of memory while packing");
  checked(ZSTD_CCtx_setParameter(packer.get(), ZSTD_c_compressionLevel, kLevel));
  checked(ZSTD_CCtx_setParameter(packer.get(), ZSTD_c_checksumFlag, 1));
  return packer;
}

// All of `text`; with `last` the end of the packed text as well. What comes out is added to `packed`.
void feed(ZSTD_CCtx& packer, std::string_view text, bool last, std::string& packed) {
  ZSTD_inBuffer in = {text.data(), text.size(), 0};
  std::vector<char> buffer(ZSTD_CStreamOutSize());
  const ZSTD_EndDirective directive = last ? ZSTD_e_end : ZSTD_e_continue;
  for (bool more = true; more;) {
    ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    const std::size_t left = checked(ZSTD_compressStream2(&packer, &out, &in, directive));
    packed.append(buffer.data(), out.pos);
    more = last ? left != 0 : in.pos < in.size;
  }
}

class
    Reader {  // takes packed bytes, hands the text on; refuses what is longer than it may be before it is kept
 public:
  Reader(std::string where,
         std::uint64_t max_bytes,
         const std::function<void(std::string_view)>& on_piece,
         std::string_view base = {})
      : where_(std::move(where)),
        left_(max_bytes),
        on_piece_(on_piece),
        unpacker_(ZSTD_createDCtx(), &ZSTD_freeDCtx),
        buffer_(ZSTD_DStreamOutSize()) {
    if (!unpacker_) throw nsa::Error("out of memory while unpacking");
    checked(ZSTD_DCtx_refPrefix(unpacker_.get(), base.data(), base.size()));
  }

  void take(std::string_view packed) {
    ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
    for (bool full = false; in.pos < in.size || (full && expected_ != 0);) {
      ZSTD_outBuffer out = {buffer_.data(), buffer_.size(), 0};
      expected_ = checked(ZSTD_decompressStream(unpacker_.get(), &out, &in), where_);
      full = out.pos == out.size;
      if (out.pos > left_) throw nsa::Error(where_ + ": longer than it may be");
      left_ -= out.pos;
      if (out.pos > 0) on_piece_({buffer_.data(), out.pos});
    }
  }

  void finish() const {
    if (expected_ != 0) throw nsa::Error(where_ + ": it ends too early");
  }

 private:
  std::string where_;
  std::uint64_t left_;
  const std::function<void(std::string_view)>& on_piece_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> unpacker_;
  std::vector<char> buffer_;
  std::size_t expected_ = 1;  // 0: at the end of the packed text
};

}  // namespace

std::string pack(std::string_view text, std::string_view base) {
  const Packer packer = new_packer();
  checked(ZSTD_CCtx_refPrefix(packer.get(), base.data(), base.size()));
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  packed.resize(checked(
      ZSTD_compress2(packer.get(), packed.data(), packed.size(), text.data(), text.size())));
  return packed;
}

std::string unpack(std::string_view packed, std::size_t max_bytes, std::string_view base) {
  std::string text;
  const std::function<void(std::string_view)> keep = [&](std::string_view piece) { text += piece; };
  Reader reader("packed text", max_bytes, keep, base);
  reader.take(packed);
  reader.finish();
  return text;
}

void pack_file(const std::string& from, const std::string& to) {
  const Packer packer = new_packer();
  std::string packed;  // a tenth of a case's events: it fits
  nsa::read_pieces(from, [&](std::string_view piece) { feed(*packer, piece, false, packed); });
  feed(*packer, "", true, packed);
  nsa::write_durably(to, packed);
}

void unpack_file(const std::string& path,
                 std::uint64_t max_bytes,
                 const std::function<void(std::string_view)>& on_piece) {
  Reader reader(path, max_bytes, on_piece);
  nsa::read_pieces(path, [&](std::string_view piece) { reader.take(piece); });
  reader.finish();
}

}  // namespace harness
