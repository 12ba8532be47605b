package policy

import (
	"cmp"
	"slices"

	"tensorstack.dev/jobs/common/framework"
)

// Scale shares the replicas that are expected of an elastic job among its roles, by their scaling weights and with the
// largest remainder; of equal ones the earlier role's goes first. The role of the given type keeps 1. Without it the
// first role of any weight leads, and gets 1 at least. If no role has a weight, the first takes all.
func Scale(fixedType string, roles []framework.Role, expected int32) []framework.Role {
	scaled := slices.Clone(roles)
	var shares []share
	sum := int64(0)
	for i := range scaled {
		role := &scaled[i]
		if role.Type == fixedType {
			role.Replicas = 1
			expected--
			continue
		}
		shares = append(shares, share{role: role, weight: int64(role.ScalingWeight)})
		sum += int64(role.ScalingWeight)
	}
	if len(shares) == 0 {
		return scaled
	}
	if sum == 0 {
		shares[0].weight, sum = 1, 1
	}
	total := int64(max(expected, 0))
	left := total
	for i := range shares {
		s := &shares[i]
		s.replicas, s.remainder = total*s.weight/sum, total*s.weight%sum
		left -= s.replicas
	}
	byRemainder := slices.Clone(shares)
	slices.SortStableFunc(byRemainder, func(a, b share) int { return cmp.Compare(b.remainder, a.remainder) })
	for i := range shares {
		s := &shares[i]
		s.role.Replicas = int32(s.replicas) //nolint:gosec // not more than expected
	}
	for _, s := range byRemainder[:left] {
		s.role.Replicas++
	}
	if len(shares) == len(scaled) && total > 0 {
		ensureLeader(shares)
	}
	return scaled
}

// share is a role's part of the replicas of an elastic job.
type share struct {
	role                *framework.Role
	weight              int64
	replicas, remainder int64
}

// ensureLeader gives the first role of any weight a replica, from the role that has most.
func ensureLeader(shares []share) {
	lead := slices.IndexFunc(shares, func(s share) bool { return s.weight > 0 })
	if shares[lead].role.Replicas > 0 {
		return
	}
	most := slices.MaxFunc(shares, func(a, b share) int { return cmp.Compare(a.role.Replicas, b.role.Replicas) })
	most.role.Replicas--
	shares[lead].role.Replicas++
}

// Grow returns the indices of the replicas of a role of which n are wanted: those that are there, which are never less
// than they were, and as many of the lowest free ones below the limit as are missing. Until enough are free they are
// fewer than n.
func Grow(present []int32, n, limit int32, free func(index int32) bool) []int32 {
	grown := append(make([]int32, 0, n), present...)
	for index := int32(0); index < limit && len(grown) < int(n); index++ {
		if !slices.Contains(present, index) && free(index) {
			grown = append(grown, index)
		}
	}
	slices.Sort(grown)
	return grown
}

// Present is a replica of an elastic job, as Shrink looks at it.
type Present struct {
	Index int32
	// Running says that the replica runs or has ended: it has done work.
	Running bool
	// Leads says that it is the leader, which is never taken away.
	Leads bool
}

// Shrink returns the indices of the replicas of a role that stay if n are wanted: first those go that do not run, then
// those of the highest index.
func Shrink(present []Present, n int32) []int32 {
	byWorth := slices.Clone(present)
	slices.SortFunc(byWorth, func(a, b Present) int {
		return cmp.Or(cmp.Compare(b.worth(), a.worth()), cmp.Compare(a.Index, b.Index))
	})
	stay := make([]int32, 0, n)
	for i, p := range byWorth {
		if i < int(n) || p.Leads {
			stay = append(stay, p.Index)
		}
	}
	slices.Sort(stay)
	return stay
}

func (p Present) worth() int {
	switch {
	case p.Leads:
		return 2
	case p.Running:
		return 1
	default:
		return 0
	}
}
