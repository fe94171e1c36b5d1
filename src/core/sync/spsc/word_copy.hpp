#pragma once  // sync/spsc/word_copy.hpp: copies a record that its writer may be overwriting.

#include <array>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace gantry {

// Pair [W]. The writer marks the record as being overwritten, then stores its words; the reader
// loads the words, then looks at the mark. A reader that loaded a word of the new record sees that
// mark, so it knows a mixed copy for one. Words are used because a plain copy would be a data race;
// release and acquire instead of fences, because ThreadSanitizer knows no fences.

/// A record's memory seen as words; may alias it.
using SharedWord [[gnu::may_alias]] = std::uint64_t;

template <class Record>
using WordsOf = std::array<std::uint64_t, sizeof(Record) / sizeof(std::uint64_t)>;

template <class Record>
inline constexpr bool kIsWords =
    std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(std::uint64_t) == 0 &&
    alignof(Record) % alignof(std::uint64_t) == 0;

/// Stores the last word first, since the reader polls the first line.
template <class Record>
void store_words(Record& to, const Record& from) noexcept {
  static_assert(kIsWords<Record>);
  WordsOf<Record> words;
  std::memcpy(words.data(), &from, sizeof from);
  auto* const at = reinterpret_cast<SharedWord*>(&to);
  for (std::size_t i = words.size(); i-- > 0;)
    __atomic_store_n(at + i, words[i], __ATOMIC_RELEASE);  // [W]
}

template <class Record>
void load_words(Record& to, const Record& from) noexcept {
  static_assert(kIsWords<Record>);
  WordsOf<Record> words;
  const auto* const at = reinterpret_cast<const SharedWord*>(&from);
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = __atomic_load_n(at + i, __ATOMIC_ACQUIRE);  // [W]
  std::memcpy(&to, words.data(), sizeof to);
}

}  // namespace gantry
