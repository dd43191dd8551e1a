SELECT WITH DIFFERENTIAL_PRIVACY
  OPTIONS (
    epsilon = 1, delta = 1e-6,
    privacy_unit_column = id,      -- whose row it is: a whole person is hidden, not a row
    max_groups_contributed = 5,    -- a person counts in at most 5 years: all there are
    max_rows_per_group = 1         -- the registry has one row for a person and a year
  )
  year,
  COUNT(DISTINCT id) AS people,
  -- Bounds are guesses made beforehand, never read from the rows: a visit to the doctor every 3 days in three months.
  AVG(docvis, contribution_bounds_per_row => (0, 30)) AS visits
FROM 'rwm5yr.parquet'
GROUP BY year
