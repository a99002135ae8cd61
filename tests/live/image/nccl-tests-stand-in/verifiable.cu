// The library that DSO=1 keeps apart.
__global__ void verify(int *wrong) { *wrong = 0; }
