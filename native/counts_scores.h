// Scores of rows of counts under all groups at once.
#pragma once

#include "counts.h"

namespace SCSTREAM_ISA {

constexpr int64_t PANEL = 32;             // rows that are compared together
constexpr int MOST_LEVELS = 32;           // counts whose lines are kept
constexpr int64_t MOST_HELD = 1 << 22;    // numbers kept in such lines: 32 MB
constexpr double SPARSE = 0.25;           // share of entries below which dense rows are boiled down

// The lines log Gamma(b_j + c) - log Gamma(b_j) of those features and counts that occur. They
// depend on nothing else, so that it does not matter which of them are kept.
class Levels {
  public:
    Levels(const Lines& lines, bool used)
        : lines_(lines),
          width_(lines.places.width),
          held_(used ? lines.d * MOST_LEVELS : 0),
          chunk_(used ? MOST_HELD / (CHUNK * width_) + 1 : 0) {}
    ~Levels() {
        for (int64_t c = 0; c * CHUNK < n_held_; ++c) delete chunk_[c];
    }

    // The line, or null where it is not kept.
    const double* line(int64_t j, double count) {
        const int level = count <= MOST_LEVELS ? int(count) : 0;
        if (level < 1 || double(level) != count) return nullptr;
        int32_t& held = held_[j * MOST_LEVELS + level - 1];
        if (!held) {
            if (n_held_ >= MOST_HELD / width_) return nullptr;
            if (n_held_ % CHUNK == 0)
                chunk_[n_held_ / CHUNK] = new Buffer<double>(CHUNK * width_, RAW);
            held = int32_t(++n_held_);
            double* out = place(held);
            for (int64_t p = 0; p < width_; p += LD) store(out + p, value(j, p, count));
        }
        return place(held);
    }

    void add(int64_t j, double count, double* out) const {
        for (int64_t p = 0; p < width_; p += LD)
            store(out + p, load(out + p) + value(j, p, count));
    }

  private:
    static constexpr int64_t CHUNK = 64;  // lines that are allocated together

    vd value(int64_t j, int64_t p, double count) const {
        return log_rising(load(lines_.line(j) + p), all(count));
    }
    double* place(int32_t held) const {
        return chunk_[(held - 1) / CHUNK]->get() + (held - 1) % CHUNK * width_;
    }

    const Lines& lines_;
    const int64_t width_;
    int64_t n_held_ = 0;
    Buffer<int32_t> held_;  // by feature and level, from one; zero: not yet
    Buffer<Buffer<double>*> chunk_;
};

// The line log Gamma(A + n) - log Gamma(A) of a number n of draws, the last few of which are kept.
class Totals {
  public:
    Totals(const Lines& lines, bool used)
        : width_(used ? lines.places.width : 0),
          n_held_(used ? held_lines(width_) : 0),
          sum_(width_),
          key_(n_held_, RAW),
          held_(n_held_ * width_, RAW) {
        for (int64_t j = 0; j < lines.d; ++j)
            for (int64_t p = 0; p < width_; p += LD)
                store(sum_.get() + p, load(sum_.get() + p) + load(lines.line(j) + p));
        for (int64_t i = 0; i < n_held_; ++i) key_[i] = -1.0;
    }
    const double* line(double n) {
        const int64_t i = n < 1e15 ? int64_t(n) % n_held_ : 0;
        double* out = held_.get() + i * width_;
        if (key_[i] != n) {
            key_[i] = n;
            for (int64_t p = 0; p < width_; p += LD)
                store(out + p, log_rising(load(sum_.get() + p), all(n)));
        }
        return out;
    }

  private:
    static int64_t held_lines(int64_t width) {
        const int64_t n = (1 << 15) / width;
        return n < 16 ? 16 : n < 1024 ? n : 1024;
    }
    const int64_t width_, n_held_;
    Buffer<double> sum_, key_, held_;
};

// Predictive scores under one group; what was computed for a feature and a count is kept.
class OneGroup {
  public:
    OneGroup(const double* table, int64_t d)
        : table_(table),
          total_(total_of({table, nullptr, d})),
          held_(d * MOST_LEVELS),
          sums_(d ? SUMS : 0) {}

    double of(const Entries& entries) {
        double out = 0.0, n = 0.0;
        for (int64_t t = 0; t < entries.size; ++t) {
            const double count = entries.count[t];
            const int level = count <= MOST_LEVELS ? int(count) : 0;
            const int64_t j = entries.feature[t];
            n += count;
            out += level > 0 && double(level) == count
                       ? kept(held_[j * MOST_LEVELS + level - 1], table_[j], count)
                       : log_rising(all(table_[j]), all(count))[0];
        }
        const int64_t clusters = n < double(SUMS) ? int64_t(n) : -1;
        if (double(clusters) != n) return out - log_rising(all(total_), all(n))[0];
        return out - kept(sums_[clusters], total_, n);
    }

  private:
    static constexpr int64_t SUMS = 4096;

    // Zero stands for what was not computed yet, and minus zero for zero.
    static double kept(double& place, double base, double count) {
        if (place == 0.0 && !std::signbit(place)) {
            place = log_rising(all(base), all(count))[0];
            if (place == 0.0) place = -0.0;
        }
        return place;
    }

    const double* table_;
    const double total_;
    Buffer<double> held_, sums_;
};

// Scores of panels of rows: of drawn log probabilities, or of the predictive distribution.
class CountScores {
  public:
    CountScores(const Lines& lines, bool predictive, const Rows& rows)
        : reader(rows),
          lines_(lines),
          predictive_(predictive),
          levels_(lines, predictive),
          totals_(lines, predictive),
          first_(predictive ? lines.places.width : 0) {}

    // out[r * width + place] for rows [begin, begin + count); there is room for integer vectors.
    void panel(int64_t begin, int64_t count, double* out) {
        if (!predictive_ && !reader.rows.indptr && !sparse(begin, count))
            return multiply(begin, count, out);
        const int64_t width = lines_.places.width;
        for (int64_t r = 0; r < count; ++r)
            one(reader.read_sparse(begin + r), out + r * width);
    }

    const RowReader reader;

  private:
    static constexpr int64_t TERMS = 256;  // lines that are added at a time

    bool sparse(int64_t begin, int64_t count) const {
        const int64_t size = count * reader.rows.d;
        const double* x = reader.rows.x + begin * reader.rows.d;
        Int<double> zeros = {};
        int64_t i = 0;
        for (; i + LD <= size; i += LD) zeros -= (Int<double>)(load(x + i) == 0.0);
        int64_t found = size - i;
        for (int l = 0; l < LD; ++l) found += zeros[l];
        return double(size - found) < SPARSE * double(size);
    }

    void one(const Entries& entries, double* out) {
        const Places& places = lines_.places;
        if (!predictive_) {
            const CountTerms terms = {entries, lines_.lines.get(), places.width, entries.size};
            return add_lines(lines_.start.get(), terms, places.vectors, out);
        }
        const double* total = totals_.line(total_of(entries));
        for (int64_t p = 0; p < places.width; p += LD)
            store(first_.get() + p, load(lines_.start.get() + p) - load(total + p));
        int64_t size = 0;
        for (int64_t t = 0; t < entries.size; ++t) {
            if (size == TERMS) {
                add_lines(first_.get(), PlainTerms{term_, size}, places.vectors, first_.get());
                size = 0;
            }
            term_[size] = levels_.line(entries.feature[t], entries.count[t]);
            if (term_[size])
                ++size;
            else if (entries.count[t] != 0.0)
                levels_.add(entries.feature[t], entries.count[t], first_.get());
        }
        add_lines(first_.get(), PlainTerms{term_, size}, places.vectors, out);
    }

    void multiply(int64_t begin, int64_t count, double* out) const {
        const int64_t vectors = lines_.places.vectors;
        for (int64_t v = 0; v < vectors; v += 3)
            for (int64_t r = 0; r < count; r += LD) {
                const double* x[LD];
                for (int l = 0; l < LD; ++l)
                    x[l] = reader.read(begin + (r + l < count ? r + l : count - 1)).count;
                double* place = out + r * lines_.places.width;
                if (vectors - v >= 3)
                    multiply_some<3>(x, lines_, v * LD, place);
                else if (vectors - v == 2)
                    multiply_some<2>(x, lines_, v * LD, place);
                else
                    multiply_some<1>(x, lines_, v * LD, place);
            }
    }

    const Lines& lines_;
    const bool predictive_;
    Levels levels_;
    Totals totals_;
    Buffer<double> first_;
    const double* term_[TERMS];
};

}  // namespace SCSTREAM_ISA
