/* Answers the few calls of the CUDA runtime and driver that torch makes before and around a
   backward pass, as if one idle GPU were present. Nothing is computed: tensors are fake.
   Built with the soname of the driver, so that torch finds it when it opens the driver. */
int cudaGetDeviceCount(int *count) { *count = 1; return 0; }
int cudaGetDevice(int *device) { *device = 0; return 0; }
int cudaSetDevice(int device) { return device != 0; }
int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = *greatest = 0; return 0; }
int cudaStreamIsCapturing(void *stream, int *status) { *status = 0; return stream != 0; }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *flags = 0;
  *active = 0;
  return device != 0;
}
