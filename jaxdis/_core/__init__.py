"""What every part stands on: arrays, programs and their execution, files, options, random numbers. Private."""
