package fair

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBucketIssuesABurstAndThenTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBucket(10, 5)
		var served atomic.Int64
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 100 {
			go func() {
				if b.Wait(ctx, "a") == nil {
					served.Add(1)
				}
			}()
		}
		began := time.Now()
		for _, step := range []struct {
			after time.Duration
			want  int64
		}{{0, 5}, {99 * time.Millisecond, 5}, {101 * time.Millisecond, 6}, {1001 * time.Millisecond, 15}} {
			time.Sleep(step.after - time.Since(began))
			synctest.Wait()
			if got := served.Load(); got != step.want {
				t.Errorf("after %s, %d tokens were issued, want %d", step.after, got, step.want)
			}
		}
	})
}

func TestTenantsTakeTurnsForTokens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBucket(10, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 1000 {
			go func() { _ = b.Wait(ctx, "a") }()
		}
		synctest.Wait()
		began := time.Now()
		if err := b.Wait(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 250*time.Millisecond {
			t.Errorf("a token took %s while another tenant waits for 1,000 tokens, want at most 250ms", took)
		}
	})
}

func TestATokenOfACanceledRequestIsNotLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBucket(1, 1)
		if err := b.Wait(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := b.Wait(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v, want %v", err, context.DeadlineExceeded)
		}
		began := time.Now()
		if err := b.Wait(t.Context(), "b"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next token took %s, want at most 1s", took)
		}
		if len(b.waiting.order) != 0 || len(b.waiting.items) != 0 {
			t.Errorf("the tenants %v still wait, want none", b.waiting.order)
		}
	})
}
