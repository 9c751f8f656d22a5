// All pairs of near fingerprints by the function `find_all` of simhash-cpp. It is compiled with the sources of that
// library by pairs.py, with the flags with which its Python package is built.
//
//     pairs_simhash_cpp FINGERPRINTS BLOCKS DISTANCE PAIRS
//
// FINGERPRINTS holds different fingerprints, as words of 64 bits. PAIRS gets the pairs, two words each. Prints the
// seconds of the call alone.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unordered_set>

#include "simhash.h"

int main(int count, char** arguments) {
    if (count != 5) {
        return 2;
    }
    std::FILE* input = std::fopen(arguments[1], "rb");
    std::FILE* output = std::fopen(arguments[4], "wb");
    if (input == nullptr || output == nullptr) {
        return 2;
    }
    std::unordered_set<Simhash::hash_t> fingerprints;
    std::uint64_t word;
    while (std::fread(&word, sizeof word, 1, input) == 1) {
        fingerprints.insert(word);
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto pairs = Simhash::find_all(fingerprints, std::atoi(arguments[2]), std::atoi(arguments[3]));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    for (const auto& pair : pairs) {
        const std::uint64_t words[] = {pair.first, pair.second};
        std::fwrite(words, sizeof words, 1, output);
    }
    std::printf("%f\n", seconds.count());
    return std::fclose(output);
}
