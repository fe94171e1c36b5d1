#include <gantry/link.hpp>
#include <utility>

#include "core/base/crc32c.hpp"
#include "core/base/enum_text.hpp"
#include "core/base/result.hpp"
#include "net/link/record.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kRegionMagic = 0x31'52'4c'47;  // "GLR1"
constexpr std::size_t kCheckAt = RemoteRegion::kEncodedBytes - 4;

}  // namespace

RemoteRegion::Encoded RemoteRegion::encode() const noexcept {
  Encoded encoded{};
  store_number(&encoded[0], kRegionMagic, 4);
  store_number(&encoded[4], static_cast<std::uint64_t>(access), 1);
  store_number(&encoded[8], key, 8);
  store_number(&encoded[16], bytes, 8);
  store_number(&encoded[kCheckAt], crc32c(std::span(encoded).first(kCheckAt)), 4);
  return encoded;
}

Result<RemoteRegion> RemoteRegion::decode(ConstByteSpan encoded) {
  const auto access = encoded.size() == kEncodedBytes ? load_number(&encoded[4], 1) : 0;
  if (access < 1 || access > 3 || load_number(&encoded[0], 4) != kRegionMagic ||
      load_number(&encoded[kCheckAt], 4) != crc32c(encoded.first(kCheckAt)))
    return fail(Code::invalid_argument,
                fmt::format("{} bytes that are no exported memory of a link", encoded.size()),
                "hand over what RemoteRegion::encode() returned at the far end, whole");
  RemoteRegion region;
  region.key = load_number(&encoded[8], 8);
  region.bytes = load_number(&encoded[16], 8);
  region.access = static_cast<RemoteAccess>(access);
  return region;
}

Export::Export(Export&& other) noexcept
    : exporter_(std::move(other.exporter_)), remote_(std::exchange(other.remote_, {})) {}

Export& Export::operator=(Export&& other) noexcept {
  if (this == &other) return *this;
  withdraw();
  exporter_ = std::move(other.exporter_);
  remote_ = std::exchange(other.remote_, {});
  return *this;
}

void Export::withdraw() noexcept {
  if (const auto exporter = std::exchange(exporter_, nullptr)) exporter->withdraw(remote_.key);
}

Transfer Transfer::of(ConstByteSpan local, const RemoteRegion& remote, Bytes remote_offset,
                      std::optional<std::uint64_t> signal) noexcept {
  Transfer transfer;
  transfer.local = const_cast<std::byte*>(local.data());  // NOLINT: a put only reads it
  transfer.remote = remote;
  transfer.remote_offset = remote_offset;
  transfer.row_bytes = local.size();
  transfer.signal = signal;
  return transfer;
}

std::string_view to_string(LinkKind kind) noexcept {
  return text_in({"stream", "shared", "fabric"}, kind);
}

std::string LinkExplanation::text() const {
  std::string text = fmt::format("{} to {}: about {:.1f} us", to_string(kind), peer,
                                 static_cast<double>(predicted.count()) / 1e3);
  for (const std::string& reason : reasons) text += "\n  " + reason;
  return text;
}

}  // namespace gantry
