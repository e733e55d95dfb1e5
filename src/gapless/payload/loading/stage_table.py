"""Which function of which library is which stage of making a sample.

A path "*.forward" stands for that method of every class that the module defines; a "!" at its end
says that the first argument is a path; "?" that within augmentation it is part of that.
"""

from __future__ import annotations

from .stopwatch import AUGMENT, DECODE, READ, TOKENISE

_PILLOW = "crop resize rotate transpose filter transform thumbnail reduce paste point"
_PILLOW_OPS = (
    "autocontrast colorize contain cover pad crop deform equalize expand fit flip grayscale"
    " invert mirror posterize solarize scale"
)
_OPENCV = (
    "resize warpAffine warpPerspective remap flip rotate transpose cvtColor GaussianBlur blur"
    " medianBlur bilateralFilter copyMakeBorder LUT addWeighted normalize filter2D"
)
_FUNCTIONAL = (
    "to_tensor pil_to_tensor convert_image_dtype normalize resize pad crop center_crop"
    " resized_crop hflip vflip perspective five_crop ten_crop adjust_brightness adjust_contrast"
    " adjust_saturation adjust_hue adjust_gamma adjust_sharpness rotate affine to_grayscale"
    " rgb_to_grayscale erase gaussian_blur invert posterize solarize autocontrast equalize"
    " elastic_transform to_pil_image"
)
_TORCHVISION_DECODE = (
    "decode_image decode_jpeg decode_png decode_gif decode_webp decode_avif decode_heic"
)
_V2 = "_transform _container _auto_augment _augment _geometry _color _misc _meta _type_conversion"
_TIKTOKEN = "encode encode_ordinary encode_batch encode_ordinary_batch encode_to_numpy"
_SENTENCEPIECE = (
    "encode Encode EncodeAsIds EncodeAsPieces encode_as_ids encode_as_pieces tokenize Tokenize"
)
_TRANSFORMERS = "__call__ encode encode_plus batch_encode_plus pad"
_FRAMES = "__getitem__ get_frame_at get_frames_at get_frames_in_range get_frame_played_at"

# (module, paths of attributes, stage)
TABLE: tuple[tuple[str, str, int], ...] = (
    # ── read ────────────────────────────────────────────────────────────────────────────────────
    ("numpy", "load! fromfile! loadtxt! genfromtxt!", READ),
    ("torch.serialization", "load!", READ),
    ("torch", "load!", READ),
    ("torchvision.io.image", "read_file!", READ),
    ("torchvision.io", "read_file!", READ),
    ("h5py._hl.dataset", "Dataset.__getitem__ Dataset.read_direct", READ),
    ("h5py._hl.files", "File.__init__", READ),
    ("zarr.core", "Array.__getitem__", READ),
    ("zarr.core.array", "Array.__getitem__", READ),
    ("pandas", "read_csv! read_parquet! read_pickle! read_feather! read_json!", READ),
    ("safetensors.torch", "load_file!", READ),
    ("safetensors.numpy", "load_file!", READ),
    ("scipy.io", "loadmat!", READ),
    # ── decode ──────────────────────────────────────────────────────────────────────────────────
    ("PIL.Image", "open Image.convert?", DECODE),
    ("PIL.ImageFile", "ImageFile.load", DECODE),
    ("PIL.TiffImagePlugin", "TiffImageFile.load", DECODE),
    ("PIL.WebPImagePlugin", "WebPImageFile.load", DECODE),
    ("PIL.AvifImagePlugin", "AvifImageFile.load", DECODE),
    ("PIL.Jpeg2KImagePlugin", "Jpeg2KImageFile.load", DECODE),
    ("PIL.GifImagePlugin", "GifImageFile.load_prepare GifImageFile.load_end", DECODE),
    ("cv2", "imread! imdecode imreadmulti!", DECODE),
    ("simplejpeg", "decode_jpeg decode_jpeg_header", DECODE),
    ("simplejpeg._jpeg", "decode_jpeg decode_jpeg_header", DECODE),
    ("turbojpeg", "TurboJPEG.decode TurboJPEG.decode_to_yuv TurboJPEG.decode_header", DECODE),
    ("torchvision.io.image", "read_image! " + _TORCHVISION_DECODE, DECODE),
    ("torchvision.io", "read_image! read_video! " + _TORCHVISION_DECODE, DECODE),
    ("torchvision.io.video", "read_video!", DECODE),
    (
        "torchcodec.decoders._video_decoder",
        " ".join(f"VideoDecoder.{name}" for name in _FRAMES.split()),
        DECODE,
    ),
    ("decord.video_reader", "VideoReader.__getitem__ VideoReader.get_batch", DECODE),
    ("imageio.v2", "imread! mimread!", DECODE),
    ("imageio.v3", "imread!", DECODE),
    ("skimage.io", "imread!", DECODE),
    ("skimage.io._io", "imread!", DECODE),
    ("tifffile", "imread!", DECODE),
    ("tifffile.tifffile", "imread!", DECODE),
    ("pydicom", "dcmread!", DECODE),
    ("pydicom.filereader", "dcmread!", DECODE),
    ("nibabel.dataobj_images", "DataobjImage.get_fdata", DECODE),
    ("torchaudio", "load!", DECODE),
    ("soundfile", "read! SoundFile.read", DECODE),
    ("librosa.core.audio", "load!", DECODE),
    ("scipy.io.wavfile", "read!", DECODE),
    # ── augment ─────────────────────────────────────────────────────────────────────────────────
    ("PIL.Image", " ".join(f"Image.{name}" for name in _PILLOW.split()), AUGMENT),
    ("PIL.ImageOps", _PILLOW_OPS, AUGMENT),
    ("PIL.ImageEnhance", "_Enhance.enhance", AUGMENT),
    ("cv2", _OPENCV, AUGMENT),
    ("torchvision.transforms.transforms", "*.__call__ *.forward", AUGMENT),
    ("torchvision.transforms.autoaugment", "*.forward", AUGMENT),
    ("torchvision.transforms.functional", _FUNCTIONAL, AUGMENT),
    *(("torchvision.transforms.v2." + name, "*.forward", AUGMENT) for name in _V2.split()),
    ("albumentations.core.composition", "*.__call__", AUGMENT),
    ("albumentations.core.transforms_interface", "*.__call__", AUGMENT),
    ("imgaug.augmenters.meta", "Augmenter.augment_images Augmenter.__call__", AUGMENT),
    ("kornia.augmentation.container.base", "*.forward", AUGMENT),
    ("monai.transforms.compose", "*.__call__", AUGMENT),
    ("torchaudio.transforms._transforms", "*.forward", AUGMENT),
    ("torchaudio.functional.functional", "resample spectrogram", AUGMENT),
    ("librosa.feature.spectral", "melspectrogram mfcc chroma_stft", AUGMENT),
    ("librosa.core.spectrum", "stft istft", AUGMENT),
    ("librosa.core.audio", "resample", AUGMENT),
    ("librosa.effects", "time_stretch pitch_shift trim", AUGMENT),
    ("transformers.image_processing_utils", "BaseImageProcessor.__call__", AUGMENT),
    ("transformers.feature_extraction_utils", "*.__call__", AUGMENT),
    # ── tokenise ────────────────────────────────────────────────────────────────────────────────
    (
        "transformers.tokenization_utils_base",
        " ".join(f"PreTrainedTokenizerBase.{name}" for name in _TRANSFORMERS.split()),
        TOKENISE,
    ),
    ("tokenizers", "Tokenizer.encode Tokenizer.encode_batch Tokenizer.encode_batch_fast", TOKENISE),
    ("tiktoken.core", " ".join(f"Encoding.{name}" for name in _TIKTOKEN.split()), TOKENISE),
    (
        "sentencepiece",
        " ".join(f"SentencePieceProcessor.{name}" for name in _SENTENCEPIECE.split()),
        TOKENISE,
    ),
    ("nltk.tokenize", "word_tokenize sent_tokenize", TOKENISE),
    ("spacy.language", "Language.__call__", TOKENISE),
)
