#pragma once  // channel/producer/rotation.hpp: into how many places a channel's payloads go in
              // turn.

#include <algorithm>
#include <array>
#include <bit>

#include "core/channel/fan_out/slot_table.hpp"

namespace gantry {

// A place that was just read lies in its reader's private cache, from which writing has to call
// each line back; one that has rested for some messages lies in a cache that both share; and one
// that has rested too long, in memory. How many places are best differs by machine, by size, and
// by where the two CPUs happen to be, so the copies themselves are measured:
//   idle -> the present number of places -> each other one -> the quickest stays -> idle, longer
// and from the beginning when the choice changes. docs/mechanisms/channel.md
//   I1  A number of places is one of choices(), and its footprint within most_bytes.
//   I2  What is measured are places that were used before: a number's first turn is left out.
//   I3  At any time one class of sizes is on trial at most.
//   I4  A trial whose class is not sent any more is given up, so that others get their turn.

/// Chooses the number of places for each class of sizes (a power of two). Used under the channel's
/// lock.
class Rotation {
 public:
  static constexpr unsigned kChoices = 5;
  /// Copies of each number of places on trial; of large ones, which vary less, a third.
  static constexpr unsigned kSamples = 48;
  [[nodiscard]] static constexpr unsigned samples(std::size_t of_class) noexcept {
    return of_class < 18 ? kSamples : kSamples / 3;  // up to 128 KiB
  }
  /// Messages of other sizes one after the other during a trial.
  static constexpr unsigned kMostOthers = 256;
  /// Messages of a class before its first trial, fewer of large ones.
  [[nodiscard]] static constexpr std::uint32_t first_idle(std::size_t of_class) noexcept {
    return static_cast<std::uint32_t>(std::clamp<Bytes>(kFirstBytes >> of_class, 8, 128));
  }
  static constexpr Bytes kFirstBytes = Bytes{16} << 20;
  static constexpr std::uint32_t kLeastIdle = 8192;
  static constexpr std::uint32_t kMostIdle = 1 << 18;
  /// Another number of places has to be that much quicker.
  static constexpr double kLeastGain = 1.05;

  /// `least` places, or a single one; more only as far as they take `most_bytes` in all.
  Rotation(unsigned least, Bytes most_bytes) noexcept : least_(least), most_bytes_(most_bytes) {
    for (std::size_t i = 0; i < kClasses; ++i) classes_[i].idle = first_idle(i);
  }

  /// Places for a message of that size now.
  [[nodiscard]] unsigned places(Bytes size) const noexcept;
  /// True if such a message goes where the latest one lay that was read, rather than on to the
  /// next place: whoever sends it looks first for what was read.
  [[nodiscard]] bool goes_back(Bytes size) const noexcept {
    return size > SlotTable::kLargestSpare || places(size) < least_;
  }
  /// The copy of that size, into one of places() in turn, took so long. True: a trial has ended,
  /// and places beyond most_places() need no memory any more.
  bool took(Bytes size, std::uint64_t ticks) noexcept;
  /// The most places that any class uses.
  [[nodiscard]] unsigned most_places() const noexcept;

  struct Told {
    unsigned places = 0;
    bool is_measured = false;
    bool is_short_of_memory = false;            ///< More places were not tried for want of it.
    std::array<double, kChoices> ns_per_kib{};  ///< By choices(); 0: not measured.
  };
  [[nodiscard]] Told tell(Bytes size, double ns_per_tick) const noexcept;
  [[nodiscard]] std::array<unsigned, kChoices> choices() const noexcept {
    return {least_, 1, 16, 32, kMaxSlots};
  }

 private:
  static constexpr std::size_t kNobody = ~std::size_t{0};
  static constexpr std::size_t kClasses = std::bit_width(SlotTable::kLargestSpare - 1) + 1;

  struct Class {
    std::uint8_t chosen = 0;  // of choices()
    bool is_measured = false;
    std::uint32_t idle = 0;  // messages until the next trial
    std::uint32_t next_idle = kLeastIdle;
    std::array<double, kChoices> costs{};  // of the latest trial
  };

  [[nodiscard]] static std::size_t class_of(Bytes size) noexcept;
  [[nodiscard]] bool is_possible(std::size_t choice, std::size_t of_class) const noexcept;
  void begin_trial(std::size_t of_class) noexcept;
  void try_next() noexcept;
  void end_trial() noexcept;
  void give_up_trial() noexcept;

  unsigned least_;
  Bytes most_bytes_;
  std::array<Class, kClasses> classes_{};

  // The trial.
  std::size_t tried_class_ = kNobody;
  std::size_t tried_ = 0;  // of choices()
  unsigned warm_up_ = 0;   // messages of the first turn that are left
  unsigned count_ = 0;
  unsigned others_ = 0;                   // I4
  std::array<double, kChoices> costs_{};  // ticks for a KiB; 0: not measured yet
  std::array<double, kSamples> samples_{};
};

}  // namespace gantry
