package controller

import (
	"cmp"
	"slices"
)

// inParallel calls do for 0 to n-1 with slow start. It begins with one call. Each call that returns raises the limit
// of concurrent calls by one, up to the parameter most, so the concurrency doubles with each round trip. If most is 0,
// it is maxRequests. If the first call fails and mayGoOn returns false for its error, no other call follows. This saves
// requests, for example if an admission webhook rejects every pod.
//
// If mayGoOn returns false for an error, inParallel starts no more calls and returns this error. If there are several
// such errors, inParallel returns the error of the first of these calls. If there is no such error, it returns the
// error of the first call that failed. In both cases, first means the lowest index and not the earliest time, so that
// the returned error does not depend on which call is faster.
func inParallel(most, n int, mayGoOn func(error) bool, do func(i int) error) error {
	most = cmp.Or(most, maxRequests)
	errs := make([]error, n)
	done := make(chan int)
	stops := func(err error) bool { return err != nil && !mayGoOn(err) }
	started, stopped := 0, false
	for returned := 0; returned < started || started < n && !stopped; {
		if !stopped && started < n && started-returned < min(returned+1, most) {
			go func(i int) {
				errs[i] = do(i)
				done <- i
			}(started)
			started++
			continue
		}
		stopped = stops(errs[<-done]) || stopped
		returned++
	}
	if i := slices.IndexFunc(errs, stops); i >= 0 {
		return errs[i]
	}
	return cmp.Or(errs...)
}

// maxRequests is the default of Options.MaxRequests. The Job controller of Kubernetes creates up to 500 pods per sync,
// about half of them concurrently.
const maxRequests = 500
