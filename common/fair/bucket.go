package fair

import (
	"context"
	"sync"
	"time"
)

// Bucket is a token bucket that tenants share. If tenants must wait, they take turns. How long a tenant waits depends
// on the number of tenants, and not on how many tokens the others request.
type Bucket struct {
	rate, burst float64

	mu      sync.Mutex
	tokens  float64
	updated time.Time
	waiting turns[chan struct{}]
	timer   *time.Timer
}

// NewBucket returns a full bucket. The bucket gains rate tokens per second, and has at most burst tokens. Both
// arguments must be greater than 0.
func NewBucket(rate float64, burst int) *Bucket {
	return &Bucket{rate: rate, burst: float64(burst), tokens: float64(burst), updated: time.Now()}
}

// Wait waits for a token. If the context ends first, Wait returns the error of the context.
func (b *Bucket) Wait(ctx context.Context, tenant string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	served := make(chan struct{})
	b.mu.Lock()
	b.waiting.add(tenant, served)
	b.serve()
	b.mu.Unlock()

	select {
	case <-served:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.waiting.remove(tenant, served) { // a token was issued in the meantime, so give it back
		b.tokens++
		b.serve()
	}
	return ctx.Err()
}

// serve issues the available tokens. If requests still wait afterwards, serve schedules its next call for the time
// when the next token is available.
func (b *Bucket) serve() {
	now := time.Now()
	b.tokens = min(b.burst, b.tokens+b.rate*now.Sub(b.updated).Seconds())
	b.updated = now
	all := func(string) bool { return true }
	for b.tokens >= 1 {
		served, ok := b.waiting.next(all)
		if !ok {
			return
		}
		b.tokens--
		close(served)
	}
	if len(b.waiting.order) == 0 {
		return
	}
	// The additional nanosecond rounds up, so that a token is available when the timer fires.
	next := time.Duration((1-b.tokens)/b.rate*float64(time.Second)) + 1
	if b.timer == nil {
		b.timer = time.AfterFunc(next, func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.serve()
		})
	} else {
		b.timer.Reset(next)
	}
}
