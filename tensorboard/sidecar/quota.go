package sidecar

import (
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
)

// errLimit is returned if the quota has too little space left.
var errLimit = errors.New("the limit of fetched logs is reached")

// quota limits the total size, in bytes, of all fetched logs.
type quota struct {
	limit int64
	used  atomic.Int64
}

// take reserves n bytes. It returns an error if less space is left.
func (q *quota) take(n int64) error {
	if q.used.Add(n) > q.limit {
		q.used.Add(-n)
		return fmt.Errorf("%w: %s for all sources (--fetch-limit)", errLimit,
			resource.NewQuantity(q.limit, resource.BinarySI))
	}
	return nil
}

// give releases n bytes.
func (q *quota) give(n int64) { q.used.Add(-n) }
