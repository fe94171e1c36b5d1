#include "device/cuda/cublas.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "core/base/result.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/executor.hpp"
#include "device/gemm_arguments.hpp"

namespace gantry::cuda {
namespace {

constexpr CublasStatus kCublasDone = 0;
constexpr int kNoTranspose = 0;
constexpr int kAnyAlgorithm = -1;
// Sums of 16-bit elements stay f32 until they are stored.
constexpr int kNoReducedSums = 16;
constexpr std::array kTypes = {CublasType{"f64", 1, 70, 8}, CublasType{"f32", 0, 68, 4},
                               CublasType{"f16", 2, 68, 2}, CublasType{"bf16", 14, 68, 2}};

Status status_of(CublasStatus answer) noexcept {
  switch (answer) {
    case kCublasDone:
      return kSuccess;
    case 3:  // it could not allocate
      return kOutOfMemory;
    case 7:   // an invalid value
    case 15:  // not supported
      return kInvalidValue;
    case 13:  // it failed while it ran
      return kLaunchFailed;
    default:
      return kNotSupported;
  }
}

std::optional<Cublas> load_cublas(const char* path) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Cublas cublas;
#define GANTRY_CUBLAS_FIND(member, symbol, parameters) \
  if (!find(library, symbol, cublas.member)) return std::nullopt;
  GANTRY_CUBLAS_FUNCTIONS(GANTRY_CUBLAS_FIND)
#undef GANTRY_CUBLAS_FIND
  return cublas;
}

class ProductProgram final : public ProgramState {
 public:
  ProductProgram(ContextPointer context, const Cublas& cublas, std::string version)
      : context_(std::move(context)), cublas_(cublas), version_(std::move(version)) {}

  Result<std::shared_ptr<const KernelState>> find(std::string_view name) const override {
    const auto* const found = std::ranges::find(kTypes, name, &CublasType::name);
    if (found != kTypes.end())
      return std::make_shared<ProductKernel>(context_->core.get(), cublas_, *found);
    return fail(Code::not_found,
                fmt::format("{}: cuBLAS has no products of {}", context_->core->name, name),
                "its types are f64, f32, f16, bf16");
  }
  std::string_view log() const noexcept override { return version_; }

 private:
  const ContextPointer context_;
  const Cublas cublas_;
  const std::string version_;
};

// 130100: 13.1.0; 120304: 12.3.4.
std::string version_text(int version) {
  return fmt::format("cuBLAS {}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

GemmSides sides_of(const Operation& operation) noexcept {
  GemmSides sides;
  std::memcpy(&sides, operation.arguments[kGemmBuffers].value().data(), sizeof sides);
  return sides;
}

GemmPlaces places_of(const Operation& operation) noexcept {
  GemmPlaces places;
  std::memcpy(&places, operation.arguments[kGemmBuffers + 1].value().data(), sizeof places);
  return places;
}

bool has_arguments(const Operation& operation) noexcept {
  const auto& arguments = operation.arguments;
  return arguments.size() == kGemmArguments &&
         std::all_of(arguments.begin(), arguments.begin() + kGemmBuffers,
                     [](const KernelArgument& one) { return one.is_buffer(); }) &&
         arguments[kGemmBuffers].value().size() == sizeof(GemmSides) &&
         arguments[kGemmBuffers + 1].value().size() == sizeof(GemmPlaces);
}

}  // namespace

Result<Program> product_program(const ContextPointer& context, const char* library) {
  const auto cublas = load_first(library, kProductLibraries, load_cublas);
  if (!cublas)
    return fail(Code::unsupported,
                fmt::format("{}: {} cannot be opened", context->core->name,
                            library != nullptr ? library : "libcublas.so"),
                "install cuBLAS (apt install libcublas12, pip install nvidia-cublas) and name its "
                "folder in LD_LIBRARY_PATH");
  int version = 0;
  CublasStatus answer = kCublasDone;
  const Status status = context->with([&] {
    CublasHandle handle = nullptr;
    answer = cublas->create(&handle);
    if (answer != kCublasDone) return kSuccess;
    cublas->version(handle, &version);
    cublas->destroy(handle);
    return kSuccess;
  });
  if (status != kSuccess) return refused(context->driver, context->core->name, "cuBLAS", status);
  if (answer != kCublasDone)
    return fail(
        Code::unsupported,
        fmt::format("{}: cuBLAS does not start (its status {})", context->core->name, answer),
        "install a cuBLAS that belongs to the driver's version of CUDA");
  return Program(std::make_shared<ProductProgram>(context, *cublas, version_text(version)));
}

Result<void> check_product(const Context& context, const Operation& operation) {
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const std::string& device = context.core->name;
  if (!has_arguments(operation))
    return fail(Code::invalid_argument,
                fmt::format("{}: a product takes three buffers, its sides and its places", device));
  const GemmSides sides = sides_of(operation);
  const GemmPlaces places = places_of(operation);
  for (const std::int64_t one :
       {sides.m, sides.n, sides.k, places.a_stride, places.b_stride, places.c_stride})
    if (one < 0 || one > kMost)
      return fail(Code::unsupported, fmt::format("{}: cuBLAS: a side or stride of {}; at most {}",
                                                 device, one, kMost));
  return {};
}

Products::~Products() {
  if (opened_ == nullptr || opened_->handle == nullptr) return;
  context_->discard(
      [](const Driver&, void* thing) {
        const std::unique_ptr<Opened> opened(static_cast<Opened*>(thing));
        return status_of(opened->cublas.destroy(opened->handle));
      },
      opened_.release());
}

Status Products::open(const Cublas& cublas, StreamHandle stream) noexcept {
  std::unique_ptr<Opened> opened(new (std::nothrow) Opened{cublas});
  if (opened == nullptr) return kOutOfMemory;
  if (const auto answer = cublas.create(&opened->handle); answer != kCublasDone)
    return status_of(answer);
  CublasStatus answer = cublas.set_stream(opened->handle, stream);
  if (answer == kCublasDone) answer = cublas.set_math_mode(opened->handle, kNoReducedSums);
  if (answer == kCublasDone)
    opened_ = std::move(opened);  // never half-open: its products would be on another stream
  else
    cublas.destroy(opened->handle);
  return status_of(answer);
}

// Its matrices are column-major: a row-major c = a * b is what it calls c' = b' * a'.
Status Products::multiply(const Operation& operation, StreamHandle stream) noexcept {
  const ProductKernel& kernel = *as_product(*operation.kernel);
  if (opened_ == nullptr)
    if (const Status status = open(kernel.cublas, stream); status != kSuccess) return status;
  const GemmSides sides = sides_of(operation);
  const GemmPlaces places = places_of(operation);
  const CublasType& type = kernel.type;
  const auto at = [&](std::size_t buffer, std::int64_t first) {
    const auto& state = *operation.arguments[buffer].buffer();
    const Address address = static_cast<const Buffer&>(state).object.get();
    // NOLINTNEXTLINE(performance-no-int-to-ptr): device memory has numbers for addresses
    return reinterpret_cast<void*>(address + static_cast<Address>(first * type.bytes));
  };
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  const double one_double = 1;
  const double beta_double = sides.adds != 0 ? 1 : 0;
  const auto one_float = static_cast<float>(one_double);
  const auto beta_float = static_cast<float>(beta_double);
  const bool is_double = type.bytes == sizeof(double);
  const void* const alpha = is_double ? static_cast<const void*>(&one_double) : &one_float;
  const void* const beta = is_double ? static_cast<const void*>(&beta_double) : &beta_float;
  return status_of(kernel.cublas.multiply(
      opened_->handle, kNoTranspose, kNoTranspose, number(sides.n), number(sides.m),
      number(sides.k), alpha, at(1, places.b), type.element, number(places.b_stride),
      at(0, places.a), type.element, number(places.a_stride), beta, at(2, places.c), type.element,
      number(places.c_stride), type.sum, kAnyAlgorithm));
}

}  // namespace gantry::cuda
