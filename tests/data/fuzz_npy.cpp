// libFuzzer, started as `fuzz_npy tests/data/npy_corpus`: whatever bytes pass for a .npy file can be cast to every
// dtype; all others are an Error (data).
#include <vector>

#include "core/error.h"
#include "data/cast.h"
#include "data/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace tessera;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(bytes), size);
  try {
    const auto header = data::parse_npy_header(file, static_cast<std::int64_t>(size), "fuzz.npy");
    const std::vector<std::byte> raw(file.begin() + header.data_offset, file.end());
    const auto count = elements(header.shape);
    std::vector<std::byte> out(static_cast<std::size_t>(count) * 8);
    for (int dtype = 0; dtype <= static_cast<int>(DType::kBool); ++dtype) {
      const auto bad = data::cast(header.type, raw.data(), static_cast<DType>(dtype), out.data(), count);
      if (bad >= 0) data::element_text(header.type, raw.data() + bad * data::size_of(header.type));
    }
  } catch (const Error& error) {
    if (error.code() != ExitCode::kData) throw;
  }
  return 0;
}
