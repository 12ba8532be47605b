package sidecar

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// fetcher keeps the local folder of each S3 or HTTP source synchronized with the source.
type fetcher struct {
	clock    clock.Clock
	interval time.Duration
	troubles *troubles
	log      *log.Logger
	sources  []Source
	runs     map[int]*run // by the index of the source
}

// newFetcher returns a fetcher for all S3 and HTTP sources. Their folders must exist.
func newFetcher(logs *os.Root, sources []Source, limit int64, transport http.RoundTripper) (*fetcher, error) {
	f := &fetcher{clock: clock.RealClock{}, sources: sources, runs: map[int]*run{}}
	q := &quota{limit: limit}
	for i, s := range sources {
		var from store
		switch {
		case s.S3 != nil:
			from = &bucket{source: *s.S3, transport: transport}
		case s.HTTP != nil:
			from = newPage(*s.HTTP, transport)
		default:
			continue
		}
		root, err := logs.OpenRoot(s.Run)
		if err != nil {
			return nil, err
		}
		if f.runs[i], err = newRun(from, root, q); err != nil {
			return nil, fmt.Errorf("reading the existing files of run %s: %w", s.Run, err)
		}
	}
	return f, nil
}

// run fetches until the context ends. A slow source does not delay the others.
func (f *fetcher) run(ctx context.Context) {
	var group sync.WaitGroup
	for i, r := range f.runs {
		group.Go(func() {
			for ctx.Err() == nil {
				f.fetch(ctx, i, r)
				timer := f.clock.NewTimer(f.interval)
				select {
				case <-ctx.Done():
				case <-timer.C():
				}
				timer.Stop()
			}
		})
	}
	group.Wait()
}

// fetch fetches a source once. It logs the result only if the previous fetch had another result.
func (f *fetcher) fetch(ctx context.Context, i int, r *run) {
	err := r.fetch(ctx)
	if ctx.Err() != nil {
		return // errors after the end of the context are not errors of the source
	}
	var why string
	if err != nil {
		why = describe(err)
	}
	if !f.troubles.set(i, why) {
		return
	}
	if why == "" {
		f.log.Printf("%s from %s: fetched without errors again", f.sources[i].Run, f.sources[i])
	} else {
		f.log.Printf("%s from %s: %s", f.sources[i].Run, f.sources[i], why)
	}
}
