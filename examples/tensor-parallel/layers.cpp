#include "layers.hpp"

#include "errors.hpp"
#include "matrices.hpp"

namespace tensor_parallel {

using gantry::OverlapKind;
using gantry::Result;
using gantry::ShardedProduct;

namespace {

constexpr gantry::DataType kFloat{gantry::DataType::floating, 32, 1};

}  // namespace

Result<Layers> Layers::prepare(gantry::Group& group, const Options& options,
                               std::optional<gantry::Schedule> schedule,
                               const std::shared_ptr<gantry::GemmLibrary>& gemm) {
  const auto [rows, hidden, inner] = options.sides;
  const unsigned ranks = group.ranks();
  const gantry::ShardedProductOptions how{.schedule = schedule, .gemm = gemm};
  auto first = ShardedProduct::prepare(
      group, {OverlapKind::all_gather_gemm, rows, inner, hidden, kFloat, ranks}, how);
  if (!first) return failed(first);
  auto second = ShardedProduct::prepare(
      group, {OverlapKind::gemm_reduce_scatter, rows, hidden, inner, kFloat, ranks}, how);
  if (!second) return failed(second);

  const std::int64_t own_inner = share(inner, group.rank(), ranks);
  fill(first->a(), Matrix::x, share(rows, group.rank(), ranks), 0);
  fill(first->b(), Matrix::w1, 0, own_inner);
  fill(second->b(), Matrix::w2, own_inner, 0);
  return Layers(options.activation, std::move(*first), std::move(*second));
}

Result<void> Layers::run() {
  if (auto ran = first_.run(); !ran) return failed(ran);
  activate(activation_, first_.c(), second_.a());
  if (auto ran = second_.run(); !ran) return failed(ran);
  return {};
}

}  // namespace tensor_parallel
