"""What class of work keeps a device busy: kernels and operators as real traces name them."""

import pytest

from gapless.accounting import partition, sum_ledgers
from gapless.model import category
from gapless.model.leaf import LEAF
from gapless.model.ledger import TC_MISS_REASONS
from gapless.model.trace import Device, Shape
from tests.accounting.drawing import Act, Call, Drawing, Frame, Kind, draw

H200 = Device(0, "NVIDIA H200", (9, 0))
ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>"
)
REDUCE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>"
SGEMM = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_ffma_aligna4_kernel"
TENSOR_CORES = (
    "ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_64x4_tn",
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NTT",
    "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1",
    "cutlass_80_tensorop_f16_s16816gemm_relu_f16_256x64_32x4_tn_align8",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80",
    "sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize32x32x8_stage3_ffma",  # though it says ffma
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn",
    "cutlass_80_simt_sgemm_s1688_tn",
)


def tensors(*dims: tuple[int, ...], dtype: str = "c10::Half", **fields: tuple[str, ...]) -> Shape:
    return Shape(dims, ((1,),) * len(dims), (dtype,) * len(dims), **fields)


def classify(
    name: str,
    frames: list[Frame],
    kind: Kind = "compute",
    devices: tuple[Device, ...] = (H200,),
    call: Call | None = None,
) -> tuple[str, str]:
    """Return the leaf of one activity that was launched at 50, and why."""
    act = Act("k", 60, 90, call or Call(50, 51), kind, name=name)
    ledger = partition(draw(Drawing([act], frames, [0, 90], devices=devices)).trace)
    (leaf,) = (leaf for leaf in sum_ledgers([ledger]).leaves if leaf.startswith(("busy", "copy")))
    why = ledger.facets.why[ledger.leaf == LEAF[leaf]].tolist()
    return leaf.removeprefix("busy."), TC_MISS_REASONS[int(why[0])]


def op(name: str, shape: Shape | None = None) -> Frame:
    return Frame("op", 40, 70, name=name, shape=shape)


def enclosing(name: str, kind: int = category.USER_ANNOTATION) -> Frame:
    return Frame("op", 30, 80, name=name, category=kind)


@pytest.mark.parametrize("kernel", TENSOR_CORES)
def test_knows_kernels_that_use_tensor_cores(kernel: str) -> None:
    assert classify(kernel, [op("aten::mm")])[0] == "tc_math"
    assert classify(kernel, [])[0] == "tc_math"


@pytest.mark.parametrize(
    "operator",
    [
        "aten::convolution",
        "aten::cudnn_convolution",
        "aten::conv2d",
        "aten::convolution_backward",
        "aten::mm",
        "aten::addmm",
        "aten::bmm",
        "aten::baddbmm",
        "aten::_scaled_mm",
        "aten::linear",
        "aten::matmul",
        "aten::einsum",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_efficient_attention_forward",
        "aten::_flash_attention_backward",
    ],
)
def test_mathematics_without_tensor_cores_could_have_used_them(operator: str) -> None:
    assert classify(SGEMM, [op(operator)]) == ("tc_eligible_not_used", "")


@pytest.mark.parametrize("operator", ["aten::addcmul", "aten::mm_like", "aten::mmul"])
def test_operators_that_only_sound_like_it_are_others(operator: str) -> None:
    expected = "tc_eligible_not_used" if operator == "aten::mm_like" else "other"
    assert classify("some_kernel", [op(operator)])[0] == expected


@pytest.mark.parametrize(
    ("kernel", "leaf"),
    [
        (SGEMM, "tc_eligible_not_used"),
        ("gemv2T_kernel_val<int, int, float>", "tc_eligible_not_used"),
        ("splitKreduce_kernel<32, 16, int, float>", "tc_eligible_not_used"),
        ("implicit_convolve_sgemm", "tc_eligible_not_used"),
        (ELEMENTWISE, "elementwise"),
    ],
)
def test_without_an_operator_the_kernel_tells(kernel: str, leaf: str) -> None:
    assert classify(kernel, [])[0] == leaf


@pytest.mark.parametrize(
    "devices",
    [
        (Device(0, "Tesla P100", (6, 0)),),
        (Device(0, "AMD Instinct MI300X", (9, 4)),),
        (Device(0, "unknown"),),
        (Device(1, "NVIDIA H200", (9, 0)),),
        (),
    ],
)
def test_devices_without_tensor_cores_just_compute(devices: tuple[Device, ...]) -> None:
    shape = tensors((64, 64), (64, 64), dtype="float")
    assert classify(SGEMM, [op("aten::mm", shape)], devices=devices) == ("math", "")


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        (tensors((64, 64), (64, 64), dtype="float"), "fp32_no_tf32"),
        (tensors((64, 64), (64, 64), dtype="double"), "fp64"),
        (tensors((64, 63), (63, 64)), "misaligned"),
        (tensors((64, 64), (64, 60), dtype="c10::BFloat16"), "misaligned"),
        (tensors((63, 64), (64, 64), dtype="c10::Float8_e4m3fn"), "misaligned"),
        (tensors((64, 60), (60, 64), dtype="c10::Float8_e4m3fn"), "too_small"),
        (tensors((8, 16, 8, 8), (16, 1, 8, 8), concrete=("",) * 8 + ("16",)), "grouped/depthwise"),
        (tensors((8, 16, 8, 8), (16, 16, 8, 8), concrete=("",) * 8 + ("1",)), "too_small"),
        (tensors((64, 64), (64, 64)), "too_small"),
        (Shape(), ""),
        (Shape(((64,), ()), ((1,), ()), ("Scalar", "")), ""),
    ],
)
def test_says_why_tensor_cores_were_not_used(shape: Shape, why: str) -> None:
    assert classify(SGEMM, [op("aten::mm", shape)]) == ("tc_eligible_not_used", why)


@pytest.mark.parametrize(
    ("kernel", "leaf"),
    [
        ("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float>", "mem"),
        ("void at::native::vectorized_elementwise_kernel<4, FillFunctor<float>>", "mem"),
        ("void cudnn::ops::nchwToNhwcKernel<__half, __half, float>", "layout"),
        ("void im2col_kernel<float>", "layout"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", "norm_reduce"),
        ("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel", "norm_reduce"),
        ("void (anonymous namespace)::softmax_warp_forward<float>", "norm_reduce"),
        (REDUCE, "norm_reduce"),
        ("void cub::DeviceReduceSingleTileKernel<float>", "norm_reduce"),
        ("triton_per_fused_add_native_layer_norm_1", "norm_reduce"),
        ("void cub::DeviceRadixSortOnesweepKernel<float>", "index"),
        ("void at::native::index_elementwise_kernel<128, 4>", "index"),
        ("void at::native::indexSelectLargeIndex<float>", "index"),
        ("void at::native::embedding_backward_feature_kernel", "index"),
        ("void at::native::distribution_elementwise_grid_stride_kernel", "rng"),
        ("void at::native::fused_dropout_kernel", "rng"),
        (ELEMENTWISE, "elementwise"),
        ("triton_poi_fused_relu_0", "elementwise"),
        ("void at::native::multi_tensor_apply_kernel<Adam>", "optimizer"),
        ("void at::native::fused_adamw", "optimizer"),
        ("my_kernel", "other"),
    ],
)
def test_other_work_is_told_by_the_kernel(kernel: str, leaf: str) -> None:
    assert classify(kernel, [op("aten::x")])[0] == leaf


def test_copies_within_the_device_and_memsets_are_memory_work() -> None:
    assert classify("", [], "dtod")[0] == "mem"
    assert classify("", [], "memset")[0] == "mem"
    assert classify("Memcpy HtoH (Host -> Host)", [], "dtod")[0] == "mem"


@pytest.mark.parametrize(
    ("name", "kind", "leaf"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "h2d", "copy.h2d.pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "h2d", "copy.h2d.pinned"),
        ("CopyHostToDevice", "h2d", "copy.h2d.pinned"),
        ("CopyDeviceToHost", "h2d", "copy.d2h"),
        ("CopyDeviceToDevice", "h2d", "mem"),
        ("Memcpy PtoP (Device -> Device)", "h2d", "copy.p2p"),
    ],
)
def test_copies_are_told_by_direction(name: str, kind: Kind, leaf: str) -> None:
    assert classify(name, [], kind)[0] == leaf


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
        "ncclKernel_AllReduce",
        "rcclGenericKernel<1, 2, true>",
        "mscclpp_allreduce",
        "nvshmem_barrier",
        "void ncclDevKernel_Generic",
    ],
)
def test_communication_is_told_by_the_kernel(name: str) -> None:
    act = Act("k", 60, 90, Call(50, 51), name=name)
    leaves = sum_ledgers([partition(draw(Drawing([act], steps=[0, 90])).trace)]).leaves
    assert leaves["comm.exposed"] == 30


@pytest.mark.parametrize(
    ("frame", "leaf"),
    [
        (enclosing("gapless: probe", category.MARKER), "profiler"),
        (enclosing("torch/nn/utils/clip_grad.py(1): clip_grad_norm_", 3), "gradclip_scaler"),
        (enclosing("aten::_amp_foreach_non_finite_check_and_unscale_", 1), "gradclip_scaler"),
        (enclosing("torch/amp/grad_scaler.py(1): step", 3), "gradclip_scaler"),
        (enclosing("Optimizer.step#Adam.step"), "optimizer"),
        (enclosing("Optimizer.zero_grad#Adam.zero_grad"), "zero_grad"),
    ],
)
def test_ranges_around_the_launch_come_before_names(frame: Frame, leaf: str) -> None:
    assert classify(ELEMENTWISE, [op("aten::x"), frame])[0] == leaf
    elsewhere = Call(50, 51, "b")
    assert classify(ELEMENTWISE, [op("aten::x"), frame], call=elsewhere)[0] == "elementwise"


@pytest.mark.parametrize("name", ["eval", "iter", "save", "logging", "gc"])
def test_kernels_of_the_training_within_own_ranges_stay_its_own(name: str) -> None:
    assert classify(ELEMENTWISE, [op("aten::x"), enclosing(f"gapless:{name}")])[0] == "elementwise"


def test_a_norm_of_gradients_is_clipping_outside_the_optimizer_only() -> None:
    norm = op("aten::_foreach_norm")
    assert classify(REDUCE, [norm])[0] == "gradclip_scaler"
    assert classify(REDUCE, [norm, enclosing("Optimizer.step#LAMB.step")])[0] == "optimizer"


COPY_DIMS = ((64, 32), (64, 32))


@pytest.mark.parametrize(
    ("operator", "shape", "leaf"),
    [
        ("aten::copy_", Shape(COPY_DIMS, ((32, 1), (1, 64)), ("float", "float")), "layout"),
        ("aten::clone", Shape(COPY_DIMS, ((32, 1), (1, 64)), ("float", "float")), "layout"),
        ("aten::copy_", Shape(COPY_DIMS, ((32, 1), (32, 1)), ("float", "float")), "elementwise"),
        ("aten::copy_", Shape(COPY_DIMS, (), ("float", "float")), "elementwise"),
        ("aten::mul", Shape(COPY_DIMS, ((32, 1), (1, 64)), ("float", "float")), "elementwise"),
        ("aten::copy_", Shape(((8,), (4,)), ((1,), (2,)), ("float",) * 2), "elementwise"),
        ("aten::copy_", Shape(COPY_DIMS, ((32, 1), (1, 64)), ("c10::Half", "float")), "cast"),
        ("aten::_to_copy", Shape(COPY_DIMS, ((32, 1),) * 2, ("c10::Half", "float")), "cast"),
        ("aten::copy_", Shape(COPY_DIMS[:1], ((32, 1),), ("float",)), "elementwise"),
        ("aten::copy_", Shape((COPY_DIMS, ()), ((), ()), ("TensorList", "Scalar")), "elementwise"),
        ("aten::copy_", Shape(("x", (1, "y")), ((), ()), ("float", "float")), "elementwise"),
        ("aten::copy_", None, "elementwise"),
    ],
)
def test_copies_that_change_strides_or_types_are_told_by_inputs(
    operator: str, shape: Shape | None, leaf: str
) -> None:
    assert classify(ELEMENTWISE, [op(operator, shape)])[0] == leaf


def test_the_innermost_operator_counts() -> None:
    frames = [op("aten::linear"), Frame("op", 45, 60, name="aten::add")]
    assert classify("some_kernel", frames)[0] == "other"
    assert classify("some_kernel", frames[:1])[0] == "tc_eligible_not_used"
