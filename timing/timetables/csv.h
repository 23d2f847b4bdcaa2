// Timetables in the files of torch.distributed.pipelining, which its schedules' _load_csv and _dump_csv read and write
// ("compute_only"): one row a rank, one cell an entry.
//
//   0F0,0F1,7I0,7W0,(0F7;7B3)OVERLAP_F_B
//
// A cell is a stage, a letter (F forward, B backward, I its input gradient, W its weight gradients) and a micro-batch;
// or two of them that are co-scheduled. Empty cells, which PyTorch writes where a rank waits, say nothing. The stages
// and micro-batches are as many as the highest numbers say, and a stage is on the rank of the first row that has it.
#pragma once

#include "timing/timetables/timetable.h"

namespace dtc::timetables {

/// Throws Error (BadInput) with the name, row and column (both from 1) and text of a cell that is not an entry. What is
/// read may be invalid: check.h says.
Timetable readCsv(std::string_view text, const std::string &name);

/// What a file holds; its path is the timetable's name. Throws Error where it cannot be read.
Timetable readCsvFile(const std::string &path);

/// Without empty cells.
std::string writeCsv(const Timetable &timetable);

} // namespace dtc::timetables
