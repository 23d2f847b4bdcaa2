// A driver that says it is new and has next to none of its functions.
extern "C" {

int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int *version) {
  *version = 12080;
  return 0;
}
}
