#pragma once  // fault/image_roles.hpp: who works with images, and is killed at it.

#include <gantry/image.hpp>
#include <gantry/snapshot.hpp>

#include "fault/image_child.hpp"
#include "image/test_image.hpp"

namespace gantry::fault {

inline constexpr const char* kKeptName = "kept";

/// A snapshot's memory: one region of so many pages, made of a seed.
struct Heap {
  unsigned seed = 0;
  std::uint64_t pages = 0;
};

/// One of six sizes, some in several chunks; each number has bytes of its own.
[[nodiscard]] test::Content content_of(unsigned number);

/// Each compares every byte that it gets with those that were packed, and returns what differs.
/// How it does its work depends on `seed`: codecs, ways of reading, orders.
[[nodiscard]] std::string pack(const test::Content& content, const std::string& path,
                               unsigned seed);
[[nodiscard]] std::string load(const test::Content& content, const std::string& path,
                               unsigned seed);
[[nodiscard]] std::string save(const Heap& heap, const std::string& path, unsigned seed);
/// Touched by threads while it loads.
[[nodiscard]] std::string restore(const Heap& heap, const std::string& path, unsigned seed);
/// Until it hears.
[[nodiscard]] std::string keep(const std::string& path, const std::string& directory, unsigned seed,
                               const Talk& talk);
/// Tells when it has compared all, and does so once more when it has heard.
[[nodiscard]] std::string attach(const test::Content& content, const std::string& directory,
                                 const Talk& talk);

/// Nothing: the file has this content, whole. In the calling thread.
[[nodiscard]] std::string differs(const test::Content& content, const std::string& path);
/// The same of a snapshot; needs threads.
[[nodiscard]] std::string differs(const Heap& heap, const std::string& path);

}  // namespace gantry::fault
