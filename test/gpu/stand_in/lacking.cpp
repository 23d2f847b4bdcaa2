// A driver that claims to be new and lacks nearly all of its functions.
extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = 12080;
  return 0;
}
}
