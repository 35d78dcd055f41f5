/* Preloaded into the daemon of a soak: its clock on the wall is off by the seconds that stand in the file which
 * GATED_SOAK_CLOCK names, at every moment. The other clocks, and everybody else's, are the machine's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long *offset;

__attribute__((constructor)) static void map_offset(void)
{
	const char *name = getenv("GATED_SOAK_CLOCK");
	int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
	void *at = file < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);

	if (at == MAP_FAILED)
		abort();
	close(file);
	offset = at;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int got = syscall(SYS_clock_gettime, clock, now);

	if (got == 0 && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += *offset;
	return got;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec at;

	(void)zone;
	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	now->tv_sec = at.tv_sec;
	now->tv_usec = at.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *now)
{
	struct timespec at;

	if (clock_gettime(CLOCK_REALTIME, &at) != 0)
		return -1;
	if (now)
		*now = at.tv_sec;
	return at.tv_sec;
}
