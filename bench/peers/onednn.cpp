// Conversions by oneDNN's reorder.

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <utility>
#include <vector>

#include "reshape_task.hpp"

namespace gantry::bench {
namespace {

using Type = dnnl::memory::data_type;

Type type_of(ReshapeTask::To to) {
  if (to == ReshapeTask::To::bf16) return Type::bf16;
  return to == ReshapeTask::To::f16 ? Type::f16 : Type::s8;
}

Reshaping reorder_of(const ReshapeTask& task) {
  const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  const auto row = [&](Type type) {
    return dnnl::memory::desc({task.count}, type, dnnl::memory::format_tag::a);
  };
  dnnl::primitive_attr attributes;
  if (task.to == ReshapeTask::To::i8) attributes.set_output_scales(0, {task.scale[0]});
  const dnnl::reorder::primitive_desc how(cpu, row(Type::f32), cpu, row(type_of(task.to)),
                                          attributes);
  // The library takes a source that is not const, and leaves it alone.
  dnnl::memory source(row(Type::f32), cpu, const_cast<std::byte*>(task.source));
  dnnl::memory destination(row(type_of(task.to)), cpu, task.destination);
  return [reorder = dnnl::reorder(how), stream = dnnl::stream(cpu), source, destination]() mutable {
    reorder.execute(stream, source, destination);
    stream.wait();
  };
}

}  // namespace
}  // namespace gantry::bench

extern "C" [[gnu::visibility("default")]] bool gantry_reshape_peer(
    const gantry::bench::ReshapeTask& task, const std::string&, gantry::bench::Reshaping& made,
    std::string& why) {
  if (task.pictures) {
    why = "its reorder scales no channels on the way to planes";
    return false;
  }
  try {
    made = gantry::bench::reorder_of(task);
    return true;
  } catch (const dnnl::error& error) {
    why = error.what();
    return false;
  }
}
