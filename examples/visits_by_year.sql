SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS (
    epsilon = 1, delta = 1e-6,
    privacy_unit_column = id,      -- whose row it is: a whole person is hidden, not a row
    max_groups_contributed = 5,    -- a person counts in at most 5 years: all there are
    max_rows_per_group = 1         -- the registry has one row for a person and a year
  )
  year,
  COUNT(DISTINCT id) AS people,
  -- Bounds are chosen beforehand, never read from the rows. In three months few people see a doctor more than 60 times.
  AVG(docvis, contribution_bounds_per_row => (0, 60)) AS visits
FROM 'rwm5yr.parquet'
GROUP BY year
