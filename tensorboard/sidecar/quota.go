package sidecar

import (
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/resource"
)

// errLimit: the logs that are fetched take as much space as they may.
var errLimit = errors.New("the limit of fetched logs is reached")

// quota is the space that all fetched logs may take together.
type quota struct {
	limit int64
	used  atomic.Int64
}

// take uses space, if there is so much left.
func (q *quota) take(n int64) error {
	if q.used.Add(n) > q.limit {
		q.used.Add(-n)
		return fmt.Errorf("%w: %s for all sources (--fetch-limit)", errLimit,
			resource.NewQuantity(q.limit, resource.BinarySI))
	}
	return nil
}

// give gives space back.
func (q *quota) give(n int64) { q.used.Add(-n) }
