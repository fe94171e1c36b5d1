#pragma once  // link/exports.hpp: the memory of this end that the far end may reach.

#include <gantry/link.hpp>
#include <map>
#include <unordered_map>

#include "link/rows.hpp"

namespace gantry {

/// Used under its link's lock.
///   I1  A key is the link's random number and a count, so it never names anything else, and one
///       of another link is recognised as never given out.
class Exports {
 public:
  static constexpr std::size_t kMost = 4096;

  struct Entry {
    ByteSpan memory;
    RemoteAccess access = RemoteAccess::read;
    bool is_shared = false;  // the far end maps it
  };
  enum class Verdict : std::uint8_t {
    ok,
    withdrawn,  // was exported once
    never,      // a key that this link never gave out
    denied,     // not for this access
    beyond,     // not within the memory
  };

  Exports();

  [[nodiscard]] Result<std::uint64_t> add(ByteSpan memory, RemoteAccess access);
  void set_shared(std::uint64_t key);
  /// Returns what it was.
  std::optional<Entry> remove(std::uint64_t key) noexcept;
  [[nodiscard]] bool has(std::uint64_t key) const noexcept { return entries_.contains(key); }

  /// Whether the far end may reach these rows. If so `first` is the first one.
  [[nodiscard]] Verdict find(std::uint64_t key, RemoteAccess wanted, Bytes offset, Bytes rows,
                             Bytes row_bytes, Bytes stride, std::byte*& first) const noexcept;

  struct Place {
    std::uint64_t key = 0;
    Bytes offset = 0;
  };
  /// Where in a shared export this lies whole, if it does.
  [[nodiscard]] std::optional<Place> shared_place(ConstByteSpan memory) const noexcept;

 private:
  std::uint64_t last_key_;
  std::uint64_t first_key_;
  std::unordered_map<std::uint64_t, Entry> entries_;
  std::map<const std::byte*, std::uint64_t> shared_;  // by where they begin
};

}  // namespace gantry
