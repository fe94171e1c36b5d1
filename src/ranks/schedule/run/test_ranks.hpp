#pragma once  // schedule/run/test_ranks.hpp: a group within one process, and what its plans leave.

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <barrier>
#include <functional>
#include <gantry/plan.hpp>
#include <thread>

#include "core/base/os/fd.hpp"
#include "core/engine/inline/inline_engine.hpp"
#include "core/engine/thread/thread_engine.hpp"
#include "ranks/schedule/test_plans.hpp"

namespace gantry::test {

/// A socket of each rank to each other one.
inline std::vector<std::vector<Fd>> socket_mesh(unsigned ranks) {
  std::vector<std::vector<Fd>> mesh(ranks);
  for (auto& row : mesh) row.resize(ranks);
  for (unsigned one = 0; one < ranks; ++one)
    for (unsigned other = one + 1; other < ranks; ++other) {
      std::array<int, 2> ends{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
      mesh[one][other] = Fd(ends[0]);
      mesh[other][one] = Fd(ends[1]);
    }
  return mesh;
}

/// `threaded`: shared, and copies go on while the ranks do something else.
enum class Via : std::uint8_t { stream, shared, threaded };

inline std::string name_of(Via via) {
  return via == Via::stream ? "stream" : via == Via::shared ? "shared" : "threaded";
}

inline Result<std::unique_ptr<Link>> link_over(Fd socket, Via via, const LinkOptions& options) {
  if (via == Via::stream) return make_stream_link(socket.release(), options);
  auto engine = via == Via::shared ? make_inline_engine() : make_thread_engine({});
  if (!engine) return tl::unexpected(engine.error());
  return make_shared_link(socket.release(), *std::move(engine), options);
}

inline Result<Group> group_over(std::vector<Fd> sockets, unsigned rank, Via via,
                                std::chrono::milliseconds stall_limit = std::chrono::seconds(60),
                                int interrupt_descriptor = -1, const std::string& directory = {}) {
  std::vector<std::unique_ptr<Link>> links(sockets.size());
  for (unsigned peer = 0; peer < sockets.size(); ++peer) {
    if (peer == rank) continue;
    const LinkOptions options{.peer = "rank " + std::to_string(peer), .stall_limit = stall_limit};
    auto link = link_over(std::move(sockets[peer]), via, options);
    if (!link) return tl::unexpected(link.error());
    links[peer] = std::move(*link);
  }
  GroupOptions options;
  options.rank = rank;
  options.ranks = static_cast<unsigned>(sockets.size());
  options.name = "test";
  options.directory = directory;
  options.stall_limit = stall_limit;
  options.interrupt_descriptor = interrupt_descriptor;
  options.join_timeout = std::chrono::seconds(60);
  return Group::over(options, std::move(links));
}

/// Runs `body` at each rank, in a thread of its own, once all have joined: a rank that is still
/// joining would hear from its join what another did first.
inline void at_all_ranks(unsigned ranks, Via via, const std::function<void(Group&)>& body,
                         const std::string& directory = {}) {
  auto mesh = socket_mesh(ranks);
  std::barrier all_joined(static_cast<std::ptrdiff_t>(ranks));
  std::vector<std::thread> threads;
  for (unsigned rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      auto group =
          group_over(std::move(mesh[rank]), rank, via, std::chrono::seconds(60), -1, directory);
      all_joined.arrive_and_wait();
      ASSERT_TRUE(group) << to_string(group.error());
      body(*group);
    });
  for (std::thread& thread : threads) thread.join();
}

/// A rank's element of a tensor of kPlanType.
inline std::int64_t& element(const Plan& plan, const PlanBuffers& buffers, unsigned tensor,
                             std::int64_t row, std::int64_t col) {
  auto* const cells = reinterpret_cast<std::int64_t*>(buffers.tensors[tensor].data);
  return cells[row * plan.tensors[tensor].cols + col];
}

template <class Visit>
void visit_elements(const Plan& plan, const PlanBuffers& buffers, const PlanValue& value,
                    Visit visit) {
  const PlanRect& rect = value.place.rect;
  for (std::int64_t i = 0; i < rect.rows; ++i)
    for (std::int64_t j = 0; j < rect.cols; ++j)
      visit(element(plan, buffers, value.place.tensor, rect.row + i, rect.col + j),
            evaluate(value, i, j));
}

/// Leftovers everywhere, then what the plan says is given.
inline void store_given(const Plan& plan, const PlanBuffers& buffers, unsigned rank,
                        std::int64_t leftover) {
  for (unsigned tensor = 0; tensor < plan.tensors.size(); ++tensor)
    for (std::int64_t i = 0; i < plan.tensors[tensor].rows; ++i)
      for (std::int64_t j = 0; j < plan.tensors[tensor].cols; ++j)
        if (buffers.tensors[tensor].data != nullptr)
          element(plan, buffers, tensor, i, j) = leftover;
  for (const PlanValue& value : plan.given)
    if (value.place.rank == rank)
      visit_elements(plan, buffers, value, [](std::int64_t& cell, std::int64_t is) { cell = is; });
}

/// Elements of the rank that are not what is wanted.
inline std::size_t wrong_elements(const Plan& plan, const PlanBuffers& buffers, unsigned rank) {
  std::size_t wrong = 0;
  for (const PlanValue& value : plan.wanted)
    if (value.place.rank == rank)
      visit_elements(plan, buffers, value, [&wrong](const std::int64_t& cell, std::int64_t is) {
        wrong += cell == is ? 0 : 1;
      });
  return wrong;
}

}  // namespace gantry::test
