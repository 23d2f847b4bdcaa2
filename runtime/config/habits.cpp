// Only tables: to support another name, add a word to a row.
#include "runtime/config/habits.h"

#include <algorithm>
#include <initializer_list>

namespace dtc {

namespace {

struct Row {
  std::string_view ours;
  std::initializer_list<std::string_view> theirs;
};

/// dtc's key, and the names that other tools use.
const Row settingNames[] = {
    {"steps", {"max_steps", "max_iters", "train_iters", "num_steps", "total_steps", "train_steps", "training_steps"}},
    {"global_batch",
     {"batch_size", "global_batch_size", "train_batch_size", "per_device_train_batch_size", "total_batch_size",
      "micro_batch_size"}},
    {"sequence_length",
     {"seq_len", "seq_length", "max_seq_len", "max_seq_length", "sequence_len", "block_size", "context_length",
      "max_length"}},
    {"accumulation",
     {"gradient_accumulation_steps", "gradient_accumulation", "grad_accum", "grad_acc_steps", "accumulate_grad_batches",
      "num_micro_batches", "micro_batches"}},
    {"seed", {"random_seed", "manual_seed"}},
    {"optimizer", {"optim", "optimizer_type", "optimizer_name"}},
    {"learning_rate", {"lr", "base_lr", "peak_lr", "max_lr"}},
    {"beta1", {"adam_beta1"}},
    {"beta2", {"adam_beta2"}},
    {"epsilon", {"eps", "adam_epsilon", "adam_eps"}},
    {"weight_decay", {"wd", "decay"}},
    {"clip_norm",
     {"max_grad_norm", "grad_clip", "clip_grad", "max_norm", "gradient_clip_val", "gradient_clipping",
      "grad_clip_norm"}},
    {"schedule", {"lr_scheduler", "lr_scheduler_type", "lr_decay_style", "scheduler", "lr_schedule", "decay_type"}},
    {"warmup_steps", {"warmup", "warmup_iters", "num_warmup_steps", "lr_warmup_iters", "lr_warmup_steps"}},
    {"minimum_learning_rate", {"min_lr", "lr_min", "minimum_lr"}},
    {"compute",
     {"dtype", "torch_dtype", "precision", "mixed_precision", "bf16", "fp16", "amp", "param_dtype", "compute_dtype"}},
    {"gradients", {"reduce_dtype", "mixed_precision_reduce", "grad_dtype"}},
    {"loss_scale", {"initial_loss_scale", "initial_scale_power"}},
    {"loss_scale_window", {"growth_interval"}},
    {"recompute",
     {"activation_checkpointing", "gradient_checkpointing", "checkpoint_activations", "recompute_granularity", "remat",
      "recompute_activations"}},
    {"bucket_bytes",
     {"bucket_cap_mb", "ddp_bucket_cap_mb", "bucket_size", "allreduce_bucket_size", "reduce_bucket_size",
      "ddp_bucket_size"}},
    {"dropout", {"attention_dropout", "hidden_dropout", "resid_pdrop", "attn_pdrop", "embd_pdrop"}},
    {"eval_every", {"eval_steps", "eval_interval", "val_check_interval", "val_every"}},
    {"eval_batches", {"eval_iters", "limit_val_batches", "val_max_steps"}},
    {"checkpoint_every", {"save_steps", "save_interval", "save_every", "checkpoint_interval", "save_freq"}},
    {"keep", {"save_total_limit", "keep_latest_k", "save_top_k"}},
    {"validation_fraction", {"val_fraction", "validation_split", "val_split", "test_size"}},
    {"separate_documents", {"reset_attention_mask", "reset_position_ids", "eod_mask_loss", "document_mask"}},
};

/// What to write in dtc, and the options of other tools that mean the same.
const Row options[] = {
    {"write -n RANKS",
     {"nproc_per_node", "np", "ntasks", "ntasks_per_node", "num_processes", "num_gpus", "n_gpus", "world_size"}},
    {"write --nnodes N with --node-rank R, or --hosts a,b", {"nodes", "num_nodes", "num_machines", "machine_rank"}},
    {"write --hosts a,b, or --server HOST:PORT with --nnodes",
     {"rdzv_endpoint", "rdzv_backend", "master_addr", "master_port", "hostfile", "host", "main_process_ip"}},
    {"write --mesh tp=N", {"tp", "tp_size", "tensor_parallel_size", "tensor_model_parallel_size", "tensor_parallel"}},
    {"write --mesh pp=N",
     {"pp", "pp_size", "pipeline_parallel_size", "pipeline_model_parallel_size", "pipeline_parallel"}},
    {"write --mesh dp=N",
     {"dp", "dp_size", "data_parallel_size", "data_parallel", "data_parallel_replicate_degree", "ddp"}},
    {"write --mesh cp=N and --strategy cp",
     {"cp", "cp_size", "context_parallel_size", "context_parallel_degree", "context_parallel", "ring_attention",
      "sequence_parallel_size", "ulysses_sequence_parallel_size"}},
    {"write --strategy megatron-sp", {"sequence_parallel", "sp", "enable_sequence_parallel"}},
    {"write --strategy zero1, zero2, zero3 or fsdp",
     {"fsdp", "zero", "zero_stage", "zero_optimization", "use_distributed_optimizer", "deepspeed", "sharding_strategy",
      "data_parallel_shard_degree"}},
    {"write gather_ahead into a file for --choices",
     {"gather_ahead", "prefetch", "forward_prefetch", "stage3_prefetch_bucket_size"}},
    {"write --timetable naive, gpipe or 1f1b", {"pipeline_schedule", "pipeline_parallel_schedule", "pp_schedule"}},
    {"write --target cuda:sm_90, or what the GPUs are", {"device", "gpus", "gpu", "cuda", "accelerator"}},
    {"write --data FILE, which 'dtc data pack' makes",
     {"train_file", "train_data", "data_path", "dataset", "dataset_name", "train_data_path", "data_dir"}},
    {"write --validation-data FILE", {"validation_file", "eval_data", "valid_data_path", "val_data"}},
    {"write --out FOLDER", {"output_dir", "out_dir", "save", "save_dir", "dump_folder", "logging_dir"}},
    {"write --resume FOLDER",
     {"resume_from_checkpoint", "load", "checkpoint", "ckpt_path", "load_checkpoint", "resume_from"}},
    {"write --weights FOLDER", {"init_from", "pretrained", "load_weights", "finetune_from", "checkpoint_path"}},
    {"write --eval-only", {"do_eval", "eval_only", "evaluate", "eval"}},
    {"write --tensorboard",
     {"tensorboard_dir", "use_tensorboard", "enable_tensorboard", "report_to", "logger", "log_with", "wandb"}},
    {"write --trace 3-5", {"profile", "profiler", "enable_profiling", "nsys"}},
    {"name the model's directory without an option",
     {"model_name_or_path", "model", "model_name", "model_path", "tokenizer_name_or_path"}},
    {"write 'dtc export CHECKPOINT -o DIRECTORY --dtype bf16'",
     {"export_dtype", "save_dtype", "export_model", "save_pretrained"}},
    {"write 'dtc export CHECKPOINT -o DIRECTORY --shard-size 5GB'", {"max_shard_size", "shard_size"}},
    {"write --config FILE", {"config_file", "job_config", "deepspeed_config", "cfg"}},
    {"write --log-dir FOLDER", {"log_dir", "redirects", "tee"}},
    {"write --max-restarts N", {"restarts", "max_restart"}},
};

const Row verbs[] = {
    {"write 'dtc compile MODEL -o PROGRAM', then 'dtc run PROGRAM --data FILE'",
     {"train", "fit", "pretrain", "finetune", "fine-tune", "launch", "start", "sft"}},
    {"write 'dtc run PROGRAM --resume FOLDER'", {"resume", "continue"}},
    {"write 'dtc eval MODEL --data FILE'", {"evaluate", "perplexity", "validate", "test"}},
    {"write 'dtc sample MODEL --prompt TEXT'",
     {"generate", "infer", "inference", "predict", "complete", "chat", "prompt", "serve"}},
    {"write 'dtc export CHECKPOINT -o DIRECTORY'", {"convert", "save", "push", "merge"}},
    {"write 'dtc data pack'", {"tokenize", "preprocess", "prepare", "pack"}},
    {"write 'dtc balance PROGRAM --data FILE'", {"rebalance", "repartition", "cut", "resplit"}},
    {"write 'dtc inspect PROGRAM'", {"info", "show", "summary", "describe", "estimate", "dump"}},
    {"write 'dtc plan MODEL --cluster FILE'",
     {"autotune", "auto", "search", "advise", "recommend", "suggest", "optimize", "autoparallel", "planner"}},
    {"write 'dtc schedule'", {"timetable", "timetables", "pipeline"}},
    {"write 'dtc verify'", {"check", "debug", "selftest"}},
    {"write 'dtc run PROGRAM --trace 3-5'", {"profile", "trace", "benchmark", "bench"}},
    {"write 'dtc compile'", {"build", "make", "create"}},
    {"write 'dtc --help'", {"help", "usage", "man"}},
    {"write 'dtc --version'", {"version"}},
};

} // namespace

/// The row of a table that has `name` among other tools' names or, if asked, dtc's own.
template <size_t count> static std::string_view find(const Row (&table)[count], std::string_view name, bool orOurs) {
  for (const Row &row : table)
    if ((orOurs && row.ours == name) || std::ranges::find(row.theirs, name) != row.theirs.end())
      return row.ours;
  return "";
}

/// "--Tensor-Parallel-Size" in the spelling of the tables.
static std::string plain(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text(name);
  for (char &c : text)
    c = c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

std::string_view settingCalled(std::string_view name) { return find(settingNames, plain(name), /*orOurs=*/false); }

std::string adviceOnOption(std::string_view option) {
  std::string name = plain(option);
  if (std::string_view setting = find(settingNames, name, /*orOurs=*/true); !setting.empty())
    return "write --set " + std::string(setting) + "=VALUE";
  return std::string(find(options, name, /*orOurs=*/false));
}

std::string_view adviceOnVerb(std::string_view verb) { return find(verbs, verb, /*orOurs=*/false); }

} // namespace dtc
