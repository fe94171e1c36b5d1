#include "net/link/record.hpp"

#include "core/base/result.hpp"

namespace gantry {
namespace {

constexpr std::uint64_t kMagic = 0x31'4b'4c'47;  // "GLK1": the version is part of it
constexpr std::uint64_t kSignalFlag = 1;
constexpr std::uint64_t kLastFlag = 2;
constexpr auto kFirstKind = static_cast<std::uint64_t>(LinkRecord::Kind::put);
constexpr auto kLastKind = static_cast<std::uint64_t>(LinkRecord::Kind::bye);

// The words behind the first eight bytes, in their order on the wire.
template <class Record>
auto words_of(Record& record) noexcept {
  return std::array{&record.ticket,        &record.key,          &record.offset, &record.rows,
                    &record.row_bytes,     &record.stride,       &record.signal, &record.source_key,
                    &record.source_offset, &record.source_stride};
}

Result<void> check_payload(const LinkRecord& record) {
  using Kind = LinkRecord::Kind;
  if (record.kind != Kind::put && record.kind != Kind::data && !record.is_message()) return {};
  const auto bytes = payload_of(record.rows, record.row_bytes);
  const Bytes most = record.is_message() ? kMaxControlBytes : kLinkPieceBytes;
  if (bytes && *bytes <= most) return {};
  return fail(Code::peer_misbehaved, fmt::format("{} rows of {} bytes in one piece, beyond {}",
                                                 record.rows, record.row_bytes, most));
}

}  // namespace

LinkRecord::Encoded LinkRecord::encode() const noexcept {
  Encoded bytes{};
  store_number(&bytes[0], kMagic, 4);
  store_number(&bytes[4], static_cast<std::uint64_t>(kind), 1);
  store_number(&bytes[5], static_cast<std::uint64_t>(status), 1);
  store_number(&bytes[6], (has_signal ? kSignalFlag : 0) | (is_last ? kLastFlag : 0), 2);
  std::size_t at = 8;
  for (const std::uint64_t* word : words_of(*this)) {
    store_number(&bytes[at], *word, 8);
    at += 8;
  }
  return bytes;
}

Result<LinkRecord> LinkRecord::decode(const Encoded& encoded) {
  if (load_number(&encoded[0], 4) != kMagic)
    return fail(Code::peer_misbehaved, "it does not speak this link's protocol and version",
                "use the same version of Gantry at both ends");
  const auto kind = load_number(&encoded[4], 1);
  const auto status = load_number(&encoded[5], 1);
  const auto flags = load_number(&encoded[6], 2);
  const auto beyond = [](std::string_view what, std::uint64_t value, std::uint64_t most) {
    return fail(Code::peer_misbehaved,
                fmt::format("a record whose {} is {:#x}; the largest is {:#x}", what, value, most));
  };
  if (kind < kFirstKind || kind > kLastKind)
    return fail(Code::peer_misbehaved, fmt::format("unknown record kind {}; known are {} to {}",
                                                   kind, kFirstKind, kLastKind));
  if (status > kLastStatus) return beyond("status", status, kLastStatus);
  if (flags > (kSignalFlag | kLastFlag)) return beyond("flags", flags, kSignalFlag | kLastFlag);
  const auto spare = load_number(&encoded[kBytes - 8], 8);
  if (spare != 0) return beyond("last word", spare, 0);
  LinkRecord record;
  record.kind = static_cast<Kind>(kind);
  record.status = static_cast<LinkStatus>(status);
  record.has_signal = (flags & kSignalFlag) != 0;
  record.is_last = (flags & kLastFlag) != 0;
  std::size_t at = 8;
  for (std::uint64_t* word : words_of(record)) {
    *word = load_number(&encoded[at], 8);
    at += 8;
  }
  GANTRY_TRY(check_payload(record));
  return record;
}

}  // namespace gantry
