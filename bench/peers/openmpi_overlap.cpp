// A sharded product by Open MPI, as a rank that one mpirun started: its collective and then one
// product (or the other way round), or, told to cut it into chunks, its non-blocking collectives
// beside products of pieces.
//   usage: gantry-peer-openmpi_overlap SOCKET NAMESPACES OPERATOR M N K
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <gantry/gemm.hpp>
#include <gantry/plan.hpp>
#include <vector>

#include "../overlap/values.hpp"
#include "../support/report/series.hpp"
#include "../support/system/cpus.hpp"
#include "mpi_rank.hpp"

namespace gantry::bench {
namespace {

constexpr unsigned kA = 0;  // tensors of any plan of an operator
constexpr unsigned kB = 1;
constexpr unsigned kC = 2;

/// Rows that one rank has and another one wants, and where each has them.
struct Rows {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
};
Rows chunk_of(const Rows& rows, std::int64_t chunk, std::int64_t chunks) {
  const std::int64_t first = rows.count * chunk / chunks;
  return {rows.from + first, rows.to + first, rows.count * (chunk + 1) / chunks - first};
}

/// What a v-collective is told: elements for, or of, each rank.
struct Counts {
  std::vector<int> counts;
  std::vector<int> places;
  void add(std::int64_t rows, std::int64_t at, std::int64_t cols) {
    counts.push_back(static_cast<int>(rows * cols));
    places.push_back(static_cast<int>(at * cols));
  }
};

class MpiProduct {
 public:
  MpiProduct(const MpiWorld& world, OverlapKind kind, Plan plan, PlanBuffers buffers, Wanted wanted,
             std::shared_ptr<GemmLibrary> gemm)
      : rank_(world.rank),
        ranks_(world.ranks),
        kind_(kind),
        plan_(std::move(plan)),
        buffers_(std::move(buffers)),
        wanted_(std::move(wanted)),
        gemm_(std::move(gemm)),
        sent_(ranks_),
        come_(ranks_) {
    find_rows();
  }

  /// Command: in how many chunks.
  Result<Answer> obey(const Command& command) {
    const auto chunks = static_cast<std::int64_t>(command.warmups);
    store_given(plan_, buffers_, rank_);
    MPI_Barrier(MPI_COMM_WORLD);
    const auto cpu = process_cpu_time();
    const Stopwatch watch;
    const bool moves_c = kind_ == OverlapKind::gemm_reduce_scatter;
    auto done = chunks == 1
                    ? (moves_c ? product_then_sum() : move_then_product())
                    : (moves_c ? products_beside_sums(chunks) : products_beside_moves(chunks));
    if (!done) return Unexpected(done.error());
    Answer answer;
    answer.kind = Answer::Kind::measured;
    answer.p50_ns = watch.spent().wall_ns;
    answer.cpu_ns = Stopwatch::ns(process_cpu_time() - cpu);
    MPI_Barrier(MPI_COMM_WORLD);  // nobody compares, and takes a CPU, while others are at it
    if (moves_c) store_sum();
    if (auto right = wanted_.compare(plan_, buffers_); !right) return Unexpected(right.error());
    return answer;
  }

 private:
  [[nodiscard]] std::int64_t cols_of(unsigned tensor) const { return plan_.tensors[tensor].cols; }
  [[nodiscard]] float* row_of(unsigned tensor, std::int64_t row) const {
    return reinterpret_cast<float*>(buffers_.tensors[tensor].data) + row * cols_of(tensor);
  }
  /// The tensor in which what moves arrives: of an all-to-all not that in which it lies.
  [[nodiscard]] unsigned arrivals() const {
    return kind_ == OverlapKind::all_to_all_gemm ? kC + 1 : kA;
  }

  // Who has what for whom is in the serial plan.
  void find_rows() {
    for (const PlanStep& step : plan_.steps) {
      if (step.verb != PlanVerb::put && step.verb != PlanVerb::copy) continue;
      const Rows rows{step.from.rect.row, step.to.rect.row, step.from.rect.rows};
      if (step.from.rank == rank_) sent_[step.to.rank] = rows;
      if (step.to.rank == rank_) come_[step.from.rank] = rows;
    }
    if (kind_ == OverlapKind::all_to_all_gemm) return;
    // Where the own rows of A lie, or those of C that are wanted here.
    for (const PlanValue& value :
         kind_ == OverlapKind::all_gather_gemm ? plan_.given : plan_.wanted)
      if (value.place.rank == rank_ && value.place.tensor != kB)
        come_[rank_] = {value.place.rect.row, value.place.rect.row, value.place.rect.rows};
    if (kind_ == OverlapKind::gemm_reduce_scatter) {
      sent_[rank_] = come_[rank_];
      sum_.resize(static_cast<std::size_t>(come_[rank_].count * cols_of(kC)));
    }
  }

  Result<void> multiply(const float* a, std::int64_t rows, float* c) {
    if (rows == 0) return {};
    return gemm_->multiply({.type = {DataType::floating, 32, 1},
                            .m = rows,
                            .n = cols_of(kB),
                            .k = cols_of(kA),
                            .a = reinterpret_cast<const std::byte*>(a),
                            .a_stride = cols_of(kA),
                            .b = buffers_.tensors[kB].data,
                            .b_stride = cols_of(kB),
                            .c = reinterpret_cast<std::byte*>(c),
                            .c_stride = cols_of(kC)});
  }

  /// Rows of A for, or from, all ranks in a chunk of several.
  [[nodiscard]] Counts counts_of(const std::vector<Rows>& all, std::int64_t Rows::* at,
                                 std::int64_t chunk, std::int64_t chunks) const {
    Counts counts;
    for (const Rows& rows : all) {
      const Rows part = chunk_of(rows, chunk, chunks);
      counts.add(part.count, part.*at, cols_of(kA));
    }
    return counts;
  }

  Result<void> move_then_product() {
    const Counts to = counts_of(come_, &Rows::to, 0, 1);
    if (kind_ == OverlapKind::all_gather_gemm) {
      MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, row_of(kA, 0), to.counts.data(), to.places.data(),
                     MPI_FLOAT, MPI_COMM_WORLD);
    } else {
      const Counts from = counts_of(sent_, &Rows::from, 0, 1);
      MPI_Alltoallv(row_of(kA, 0), from.counts.data(), from.places.data(), MPI_FLOAT,
                    row_of(arrivals(), 0), to.counts.data(), to.places.data(), MPI_FLOAT,
                    MPI_COMM_WORLD);
    }
    return multiply(row_of(arrivals(), 0), plan_.tensors[arrivals()].rows, row_of(kC, 0));
  }

  // All chunks are on their way at once. While this computes, what has come is seen between two
  // products, which is when the library goes on.
  Result<void> products_beside_moves(std::int64_t chunks) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(chunks));
    std::vector<Counts> froms(requests.size());  // they are read until the end
    std::vector<Counts> tos(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto chunk = static_cast<std::int64_t>(i);
      Counts& to = tos[i] = counts_of(come_, &Rows::to, chunk, chunks);
      if (kind_ == OverlapKind::all_gather_gemm) {
        MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, row_of(kA, 0), to.counts.data(),
                        to.places.data(), MPI_FLOAT, MPI_COMM_WORLD, &requests[i]);
        continue;
      }
      Counts& from = froms[i] = counts_of(sent_, &Rows::from, chunk, chunks);
      from.counts[rank_] = to.counts[rank_] = 0;  // those are used where they lie
      MPI_Ialltoallv(row_of(kA, 0), from.counts.data(), from.places.data(), MPI_FLOAT,
                     row_of(arrivals(), 0), to.counts.data(), to.places.data(), MPI_FLOAT,
                     MPI_COMM_WORLD, &requests[i]);
    }
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const Rows own = chunk_of(come_[rank_], chunk, chunks);
      if (auto done = multiply(row_of(kA, own.from), own.count, row_of(kC, own.to)); !done)
        return done;
      look_at(requests);
    }
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      MPI_Wait(&requests[static_cast<std::size_t>(chunk)], MPI_STATUS_IGNORE);
      for (unsigned source = 0; source < ranks_; ++source) {
        if (source == rank_) continue;
        const Rows rows = chunk_of(come_[source], chunk, chunks);
        if (auto done = multiply(row_of(arrivals(), rows.to), rows.count, row_of(kC, rows.to));
            !done)
          return done;
        look_at(requests);
      }
    }
    return {};
  }

  Result<void> product_then_sum() {
    if (auto done = multiply(row_of(kA, 0), plan_.tensors[kA].rows, row_of(kC, 0)); !done)
      return done;
    Counts counts;
    for (const Rows& rows : sent_) counts.add(rows.count, rows.from, cols_of(kC));
    MPI_Reduce_scatter(row_of(kC, 0), sum_.data(), counts.counts.data(), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
    return {};
  }

  // A chunk has some rows for each rank, which lie one after the other.
  Result<void> products_beside_sums(std::int64_t chunks) {
    std::vector<MPI_Request> requests(static_cast<std::size_t>(chunks), MPI_REQUEST_NULL);
    std::vector<Counts> counts(requests.size());
    std::int64_t row = 0;  // of C, where chunks are computed to
    std::int64_t summed = 0;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::int64_t first = row;
      for (const Rows& rows : sent_) {
        const Rows part = chunk_of(rows, static_cast<std::int64_t>(i), chunks);
        if (auto done = multiply(row_of(kA, part.from), part.count, row_of(kC, row)); !done)
          return done;
        counts[i].add(part.count, row, cols_of(kC));
        row += part.count;
        look_at(requests);
      }
      MPI_Ireduce_scatter(row_of(kC, first), sum_.data() + summed, counts[i].counts.data(),
                          MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[i]);
      summed += counts[i].counts[rank_];
    }
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    return {};
  }

  static void look_at(std::vector<MPI_Request>& requests) {
    int all = 0;
    MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE);
  }
  void store_sum() { std::copy(sum_.begin(), sum_.end(), row_of(kC, come_[rank_].to)); }

  unsigned rank_;
  unsigned ranks_;
  OverlapKind kind_;
  Plan plan_;  // serial
  PlanBuffers buffers_;
  Wanted wanted_;
  std::shared_ptr<GemmLibrary> gemm_;
  std::vector<Rows> sent_;  // by rank
  std::vector<Rows> come_;  // by rank; of a sum, only that of this one
  std::vector<float> sum_;
};

Result<Obey> make_product(const MpiWorld& world, char** words) {
  const auto kind = parse_overlap_kind(words[0]);
  if (!kind) return Unexpected(kind.error());
  const OverlapOperator op{.kind = *kind,
                           .m = std::atoll(words[1]),
                           .n = std::atoll(words[2]),
                           .k = std::atoll(words[3]),
                           .type = {DataType::floating, 32, 1},
                           .ranks = world.ranks};
  auto plan = make_plan(op, Schedule{});
  if (!plan) return Unexpected(plan.error());
  auto buffers = PlanBuffers::make(*plan, world.rank);
  if (!buffers) return Unexpected(buffers.error());
  auto gemm = open_gemm();
  if (!gemm) return Unexpected(gemm.error());
  auto wanted = Wanted::of(*plan, world.rank, **gemm);
  if (!wanted) return Unexpected(wanted.error());
  auto product = std::make_shared<MpiProduct>(world, *kind, std::move(*plan), std::move(*buffers),
                                              std::move(*wanted), std::move(*gemm));
  return Obey([product](const Command& command) { return product->obey(command); });
}

}  // namespace
}  // namespace gantry::bench

int main(int argc, char** argv) {
  using namespace gantry::bench;
  if (argc != 7) return 2;
  return serve_as_mpi_rank(argv[1], argv[2],
                           [argv](const MpiWorld& world) { return make_product(world, argv + 3); });
}
