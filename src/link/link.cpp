#include <gantry/link.hpp>
#include <utility>

#include "base/result.hpp"
#include "link/record.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kRegionMagic = 0x31'52'4c'47;  // "GLR1"
constexpr std::size_t kCheckAt = RemoteRegion::kEncodedBytes - 4;

// CRC-32C by the book (RFC 3720, B.4). Regions are made rarely.
std::uint32_t check_of(ConstByteSpan bytes) noexcept {
  std::uint32_t crc = ~0u;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f6'3b78u : 0u);
  }
  return ~crc;
}

}  // namespace

RemoteRegion::Encoded RemoteRegion::encode() const noexcept {
  Encoded encoded{};
  store_number(&encoded[0], kRegionMagic, 4);
  store_number(&encoded[4], static_cast<std::uint64_t>(access), 1);
  store_number(&encoded[8], key, 8);
  store_number(&encoded[16], bytes, 8);
  store_number(&encoded[kCheckAt], check_of(std::span(encoded).first(kCheckAt)), 4);
  return encoded;
}

Result<RemoteRegion> RemoteRegion::decode(ConstByteSpan encoded) {
  const auto access = encoded.size() == kEncodedBytes ? load_number(&encoded[4], 1) : 0;
  if (access < 1 || access > 3 || load_number(&encoded[0], 4) != kRegionMagic ||
      load_number(&encoded[kCheckAt], 4) != check_of(encoded.first(kCheckAt)))
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
  constexpr std::array<std::string_view, 3> kNames{"stream", "shared", "fabric"};
  const auto at = static_cast<std::size_t>(kind);
  return at < kNames.size() ? kNames[at] : "unknown";
}

std::string LinkExplanation::text() const {
  std::string text = fmt::format("{} to {}: about {:.1f} us", to_string(kind), peer,
                                 static_cast<double>(predicted.count()) / 1e3);
  for (const std::string& reason : reasons) text += "\n  " + reason;
  return text;
}

}  // namespace gantry
